"""Emit how elements are read: from what stands in memory to what `lift` sees."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.dtypes import STORED
from chunkfold.kernels.opencl.opencl_code import joined
from chunkfold.kernels.opencl.unpacking import held_type, unpacked_lanes, unpacked_one

_UNSIGNED = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}


def inputs(accumulator: Accumulator) -> str:
    """Return the types of values, and the functions that read one element or CHF_WIDTH of them."""
    numbers = range(len(accumulator.stored))
    buffers = [f"__global const {_storage(accumulator, n)} *restrict p{n}" for n in numbers]
    value = [STORED[name].value for name in accumulator.value]
    if lanes_readable(accumulator):
        members = " ".join(f"CHF_VEC({value[n]}) x{n};" for n in numbers)
        load = joined(_load_lanes(n, accumulator) for n in numbers)
    else:
        members = " ".join(f"{value[n]} x{n}[CHF_LANES];" for n in numbers)
        copies = " ".join(f"v[j / CHF_LANES].x{n}[j % CHF_LANES] = one.x{n};" for n in numbers)
        load = f"""\
    #pragma unroll
    for (int j = 0; j < CHF_WIDTH; j++) {{
        const value_t one = chf_value(CHF_INPUT_NAMES, k + j);
        {copies}
    }}"""
    ahead = " ".join(f"CHF_AHEAD(p{n}, CHF_AT{n}(k))" for n in numbers)
    asks = " ".join(f"CHF_ASK(p{n} + CHF_AT{n}(k));" for n in numbers)
    return f"""\
{_arguments(buffers)}
typedef struct {{ {" ".join(f"{value[n]} x{n};" for n in numbers)} }} value_t;
typedef struct {{ {members} }} values_t;
#define chf_raw_t {_storage(accumulator, 0)}
#define chf_bits_t {_UNSIGNED.get(STORED[accumulator.stored[0]].itemsize, "chf_raw_t")}
static void chf_each_value(const values_t *v, value_t *each)
{{
{_each(value, lanes_readable(accumulator))}
}}
{_value("chf_value", "CHF_INPUTS", accumulator)}
{_value("chf_value_local", "__local const chf_raw_t *p0", accumulator) if len(value) == 1 else ""}
static void chf_ask(CHF_INPUTS, ulong k) {{ {asks} }}
static void chf_load(CHF_INPUTS, ulong k, values_t *v)
{{
    {ahead}
{load}
}}
{_blocks(accumulator) if lanes_readable(accumulator) else ""}"""


def _arguments(buffers: Sequence[str]) -> str:
    """Return the input buffers as parameters and arguments, and where elements are in each."""
    names = [f"p{n}" for n in range(len(buffers))]
    plain = f"""\
#define CHF_INPUTS {", ".join(buffers)}
#define CHF_INPUT_NAMES {", ".join(names)}
#define CHF_INPUTS_AT(u) CHF_INPUT_NAMES
#define CHF_NEXT(u)
#define CHF_EACH_OTHER(DO)"""
    others = range(1, len(buffers))
    at = "\n".join(f"#define CHF_AT{n}(k) (k)" for n in others)
    first = "#define CHF_AT0(k) (k)"
    if not others:
        return f"{plain}\n{first}"
    taken = [buffers[0], *(f"{buffers[n]}, ulong o{n}, ulong s{n}, ulong d{n}" for n in others)]
    given = [names[0], *(f"p{n}, o{n}, s{n}, d{n}" for n in others)]
    at_load = [names[0], *(f"p{n}, o{n} + (u) * d{n}, s{n}, d{n}" for n in others)]
    strided = "\n".join(f"#define CHF_AT{n}(k) (o{n} + (k) * s{n})" for n in others)
    return f"""\
#if CHF_STRIDED
#define CHF_INPUTS {", ".join(taken)}
#define CHF_INPUT_NAMES {", ".join(given)}
#define CHF_INPUTS_AT(u) {", ".join(at_load)}
#define CHF_NEXT(u) {" ".join(f"o{n} += (u) * d{n};" for n in others)}
#define CHF_EACH_OTHER(DO) {" ".join(f"DO({n})" for n in others)}
{strided}
#else
{plain}
{at}
#endif
{first}"""


def _each(value: Sequence[str], lanes: bool) -> str:
    """Take values of lanes apart."""
    return joined(
        f"""\
    {{
        {t} e[CHF_LANES];
        CHF_SPREAD(v->x{n}, e);
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            each[j].x{n} = e[j];
    }}"""
        if lanes
        else f"""\
    for (int j = 0; j < CHF_LANES; j++)
        each[j].x{n} = v->x{n}[j];"""
        for n, t in enumerate(value)
    )


def _blocks(accumulator: Accumulator) -> str:
    """Return what reads elements of several runs, a lane for each run (kernels/cl/blocks.clh)."""
    numbers = range(len(accumulator.stored))
    value = [STORED[name].value for name in accumulator.value]
    arrays = " ".join(f"{value[n]} e{n}[CHF_LANES];" for n in numbers)
    takes = " ".join(f"e{n}[j] = one.x{n};" for n in numbers)
    gathers = " ".join(f"v->x{n} = CHF_GATHER(0, e{n});" for n in numbers)
    return f"""\
#ifdef CHF_BLOCKS
static void chf_load_one_each(CHF_INPUTS, const ulong *at, ulong t, values_t *v)
{{
    {arrays}
    #pragma unroll
    for (int j = 0; j < CHF_LANES; j++) {{
        const value_t one = chf_value(CHF_INPUT_NAMES, at[j] + t);
        {takes}
    }}
    {gathers}
}}
static void chf_load_block(CHF_INPUTS, const ulong *at, ulong t, values_t v[4])
{{
{joined(_load_block(n, accumulator) for n in numbers)}
}}
#endif"""


_WORDS = {1: "ushort4, 8", 2: "uint4, 16", 4: "ulong4, 32"}
"""Of 8 unsigned integers, by their bytes: half as many, twice as wide, and the bits of one."""


def _load_block(number: int, accumulator: Accumulator) -> str:
    """Read a block bit by bit, and make values of it."""
    stored = accumulator.stored[number]
    kind = STORED[stored]
    unsigned, words = _UNSIGNED[kind.itemsize], _WORDS.get(kind.itemsize)
    block = f"BLOCK(b, p{number}, {unsigned}, {words})" if words else f"LONG_BLOCK(b, p{number})"
    bits = "b[u]"
    if accumulator.swapped[number]:
        bits = f"CHF_TO({unsigned}, CHF_SWAP{kind.swap}(b[u]))"
    read = "CHF_HALVES(raw)" if stored == "float16" else f"CHF_AS({kind.storage}, raw)"
    return f"""\
    {{
        CHF_VEC({unsigned}) b[4];
        CHF_{block}
        #pragma unroll
        for (int u = 0; u < 4; u++) {{
            const CHF_VEC({unsigned}) raw = {bits};
            v[u].x{number} = {_unpacked_lanes(read, number, accumulator)};
        }}
    }}"""


def _value(name: str, parameters: str, accumulator: Accumulator) -> str:
    """Return the function that reads element k, of buffers or of local memory."""
    reads = joined(_load_one(n, accumulator) for n in range(len(accumulator.stored)))
    return f"""\
static value_t {name}({parameters}, ulong k)
{{
    value_t v;
{reads}
    return v;
}}"""


def lanes_readable(accumulator: Accumulator) -> bool:
    """Return whether vectors of elements can be converted as vectors, for every input."""
    return all(
        not stored.startswith("complex")
        and not (value == "float16" != stored)
        and not ("float" in stored and "float" not in value and value != "bool")
        for stored, value in zip(accumulator.stored, accumulator.value, strict=True)
    )


def _storage(accumulator: Accumulator, number: int) -> str:
    """Return the OpenCL C type of a buffer's elements; unsigned integers if bytes are swapped."""
    stored = STORED[accumulator.stored[number]]
    if not accumulator.swapped[number]:
        return stored.storage
    parts = "2" if accumulator.stored[number].startswith("complex") else ""
    return _UNSIGNED[stored.swap] + parts


def _load_one(number: int, accumulator: Accumulator) -> str:
    stored, value = accumulator.stored[number], accumulator.value[number]
    kind, pointer, at = STORED[stored], f"p{number}", f"CHF_AT{number}(k)" if number else "k"
    lines = []
    if accumulator.swapped[number]:
        storage = _storage(accumulator, number)
        lines.append(f"    const {storage} swapped{number} = {pointer}[{at}];")
        lines.append(
            f"    const {storage} bits{number} = ({storage})CHF_SWAP{kind.swap}(swapped{number});"
        )
        if stored == "float16":
            read = f"vload_half(0, (const half *)&bits{number})"
        elif stored in ("bool", "int8", "uint8", "bfloat16"):
            read = f"bits{number}"
        else:
            read = f"as_{kind.storage}(bits{number})"
    else:
        read = f"vload_half({at}, {pointer})" if stored == "float16" else f"{pointer}[{at}]"
    if stored == "bfloat16":
        read = f"as_float((uint)({read}) << 16)"
    packing = accumulator.packings[number]
    if packing is None:
        return "\n".join([*lines, f"    v.x{number} = {_converted_one(read, stored, value)};"])
    lines.append(f"    const {held_type(stored)} stored{number} = {read};")
    made = unpacked_one(packing, f"stored{number}", stored, value)
    return "\n".join([*lines, f"    v.x{number} = {made};"])


def _converted_one(read: str, stored: str, value: str) -> str:
    if value == "float16" != stored:
        return f"chf_to_half({read})"
    if value.startswith("complex"):
        return _complex(read, stored, value)
    if "bool" in (stored, value):
        return f"({STORED[value].value})({read} != 0)"
    if "float" in stored and "float" not in value:
        # A plain cast has no meaning beyond the range; what NaN becomes is the device's choice.
        return f"(isnan({read}) ? 0 : convert_{STORED[value].value}_sat({read}))"
    return f"({STORED[value].value})({read})"


def _complex(read: str, stored: str, value: str) -> str:
    part = STORED[value].value
    if stored.startswith("complex"):
        return f"convert_{part}({read})"
    return f"({part})(({part[:-1]})({read}), 0)"


def _load_lanes(number: int, accumulator: Accumulator) -> str:
    """Read CHF_WIDTH elements at once, and hand them on as vectors of CHF_LANES values."""
    stored = accumulator.stored[number]
    kind, storage = STORED[stored], _storage(accumulator, number)
    half = stored == "float16" and not accumulator.swapped[number]
    element = "float" if half else storage
    load = f"CHF_LOAD({storage}, p{number}, k)"
    load = f"CHF_LOAD_HALF(p{number}, k)" if half else load
    raw = f"e{number}"
    lines = []
    if accumulator.swapped[number]:
        # The cast keeps uchar and ushort lanes from being widened.
        lines.append(
            f"    {raw} = CHF_PASTE(convert_, CHF_WIDE({storage}))(CHF_SWAP{kind.swap}({raw}));"
        )
    part = f"CHF_PART({element}, {raw}, j)"
    if accumulator.swapped[number] and stored == "float16":
        take = f"""\
        const CHF_VEC(ushort) h{number} = {part};
        v[j].x{number} = {_unpacked_lanes(f"CHF_HALVES(h{number})", number, accumulator)};"""
    else:
        if accumulator.swapped[number] and stored not in ("bool", "int8", "uint8", "bfloat16"):
            part = f"CHF_AS({kind.storage}, {part})"
        take = f"        v[j].x{number} = {_unpacked_lanes(part, number, accumulator)};"
    loaded = f"    CHF_WIDE({element}) {raw} = {load};"
    if number:
        own = f"{raw}, p{number}, CHF_AT{number}(k), s{number}"
        strided = f"_HALF({own})" if half else f"({storage}, {own})"
        loaded = f"""\
#if CHF_STRIDED
    CHF_WIDE({element}) {raw};
    CHF_LOAD_STRIDED{strided}
#else
{loaded}
#endif"""
    return f"""\
{loaded}
{joined(lines)}
    CHF_PARTS({element}, {raw})
    #pragma unroll
    for (int j = 0; j < CHF_WIDTH / CHF_LANES; j++) {{
{take}
    }}"""


def _unpacked_lanes(read: str, number: int, accumulator: Accumulator) -> str:
    """Make values of lanes as they are read: floats of what is narrower, but for bfloat16."""
    stored, value = accumulator.stored[number], accumulator.value[number]
    if stored == "bfloat16":
        read = f"CHF_AS(float, CHF_TO(uint, {read}) << 16)"
    converted, packing = _converted_lanes(read, stored, value), accumulator.packings[number]
    if packing is None:
        return converted
    return unpacked_lanes(packing, read, converted, stored, value)


def _converted_lanes(read: str, stored: str, value: str) -> str:
    wanted, held = STORED[value].value, held_type(stored)
    if "bool" in (stored, value):
        return f"CHF_TO({wanted}, CHF_DIFFER({read}, (CHF_VEC({held}))(0)))"
    return read if wanted == held else f"CHF_TO({wanted}, {read})"
