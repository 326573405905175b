"""What a reduction is: the Monoid value, its checks, and the trees that its functions make."""
