/* Undo the fixedscaleoffset of numcodecs: integers become float64, which is divided by the scale; the offset is
 * added; and the sum becomes a DECODED. Each step is rounded once, to the nearest, as NumPy rounds.
 */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

__kernel void undo_scale_offset(__global const uchar *from, __global uchar *to, ulong from_step, ulong to_step,
                                ulong elements, double scale, double offset)
{
    const ulong n = get_global_id(0);
    if (n >= elements) return;
    from += get_global_id(1) * from_step;
    const double quotient = (double)chf_encoded(from, n) / scale;
    chf_store(to + get_global_id(1) * to_step, n, (DECODED)(quotient + offset));
}
