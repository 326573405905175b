"""The `Monoid` value, its checks, and the trees that its functions make."""
