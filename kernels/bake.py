"""Bake a reduction into OpenCL C: the header that replaces kernels/monoid.clh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources

from chunkfold.kernels.bind import Accumulator, BoundField, Component
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.monoid import COLLECTIVES

_WRITTEN = {"add": "a.{0} + b.{0}", "min": "min(a.{0}, b.{0})", "max": "max(a.{0}, b.{0})"}
_FLOAT_WRITTEN = _WRITTEN | {"min": "fmin(a.{0}, b.{0})", "max": "fmax(a.{0}, b.{0})"}


def library(name: str) -> str:
    """Return a kernel header, behind a directive that names it."""
    text = resources.files("chunkfold.kernels").joinpath(name).read_text()
    return f'#line 1 "{name}"\n{text}'


def header(accumulator: Accumulator) -> str:
    """Return the generated counterpart of kernels/monoid.clh for an accumulator."""
    parts = [
        _preamble(accumulator),
        _inputs(accumulator),
        *(
            _component(number, component, accumulator)
            for number, component in enumerate(accumulator.components)
        ),
        _whole(accumulator),
        _memory(accumulator),
        _collectives(accumulator),
    ]
    return "\n".join(parts)


def needs_fp64(accumulator: Accumulator) -> bool:
    """Whether any element, value or field of the accumulator is float64."""
    states = [dtype for c in accumulator.components if c.state for _, dtype, _ in c.state.fields]
    fields = [slot.field.dtype for slot in accumulator.slots]
    return "float64" in {*accumulator.stored, *accumulator.value, *fields, *states}


def _preamble(accumulator: Accumulator) -> str:
    lines = ['#line 1 "generated"']
    if needs_fp64(accumulator):
        lines += ["#define CHF_FP64 1", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"]
    if "float16" in accumulator.value:
        # One rounding: through float, a double would be rounded twice.
        wide = "double" if "float64" in accumulator.stored else "float"
        lines += [
            f"static float chf_to_half({wide} x)",
            "{",
            "    ushort bits;",
            "    vstore_half_rte(x, 0, (half *)&bits);",
            "    return vload_half(0, (const half *)&bits);",
            "}",
        ]
    # A contracted multiply-add rounds once where the monoid's text says twice.
    lines.append("#pragma OPENCL FP_CONTRACT OFF")
    steps = [c.state.step for c in accumulator.components if c.state is not None]
    if "order_" in "".join([*steps, *(slot.field.lift for slot in accumulator.slots)]):
        lines.append(library("order.clh") + '#line 1 "generated"')
        suffix = f"_{STORED[accumulator.value[0]].value}(x)"
        exact = accumulator.value[0].startswith("float")
        for end in ("low", "high"):
            lines.append(f"#define order_{end}(x) {f'order_{end}{suffix}' if exact else '(x)'}")
    return "\n".join(lines)


def _inputs(accumulator: Accumulator) -> str:
    numbers = range(len(accumulator.stored))
    storage = [STORED[name].storage for name in accumulator.stored]
    value = [STORED[name].value for name in accumulator.value]
    names = ", ".join(f"p{n}" for n in numbers)
    parameters = ", ".join(f"__global const {storage[n]} *restrict p{n}" for n in numbers)
    members = " ".join(f"{value[n]} x{n};" for n in numbers)
    return f"""\
#define CHF_INPUTS {parameters}
#define CHF_INPUT_NAMES {names}
typedef struct {{ {members} }} values_t;
static values_t chf_load1(CHF_INPUTS, ulong k)
{{
    values_t v;
    {" ".join(_load_one(n, accumulator) for n in numbers)}
    return v;
}}
static void chf_load(CHF_INPUTS, ulong k, values_t *v)
{{
#if CHF_VECTOR_LOADS
{_join(_load_vector(n, accumulator) for n in numbers)}
#else
    for (int j = 0; j < CHF_WIDTH; j++)
        v[j] = chf_load1(CHF_INPUT_NAMES, k + j);
#endif
}}"""


def _load_one(number: int, accumulator: Accumulator) -> str:
    stored, value = accumulator.stored[number], accumulator.value[number]
    read = f"vload_half(k, p{number})" if stored == "float16" else f"p{number}[k]"
    return f"v.x{number} = {_converted(read, stored, value)};"


def _load_vector(number: int, accumulator: Accumulator) -> str:
    stored, value = accumulator.stored[number], accumulator.value[number]
    storage = STORED[stored].storage
    element = "float" if stored == "float16" else storage
    # The vector types' names carry a number: they are pasted after CHF_WIDTH is known.
    if stored == "float16":
        vector = f"CHF_PASTE(vload_half, CHF_WIDTH)(0, p{number} + k)"
    else:
        vector = f"*(__global const CHF_PASTE({storage}, CHF_WIDTH) *)(p{number} + k)"
    read = _converted(f"e{number}[j]", stored, value)
    return f"""\
    {element} e{number}[CHF_WIDTH];
    CHF_PASTE(vstore, CHF_WIDTH)({vector}, 0, e{number});
    #pragma unroll
    for (int j = 0; j < CHF_WIDTH; j++)
        v[j].x{number} = {read};"""


def _converted(read: str, stored: str, value: str) -> str:
    if value == "float16" != stored:
        return f"chf_to_half({read})"
    if "bool" in (stored, value):
        return f"({STORED[value].value})({read} != 0)"
    if stored.startswith("float") and not value.startswith("float"):
        # A plain cast has no meaning beyond the range; what NaN becomes is the device's choice.
        return f"(isnan({read}) ? 0 : convert_{STORED[value].value}_sat({read}))"
    return f"({STORED[value].value})({read})"


def _component(number: int, component: Component, accumulator: Accumulator) -> str:
    c = f"c{number}"
    members = " ".join(f"{FIELD[f.dtype]} {f.name};" for f in component.fields)
    return f"""\
typedef struct {{ {members} }} {c}_t;
static {c}_t {c}_zero(void)
{{
    {c}_t z;
    {" ".join(f"z.{f.name} = {literal(f.zero, f.dtype)};" for f in component.fields)}
    return z;
}}
static {c}_t {c}_op({c}_t a, {c}_t b)
{{
    {c}_t r;
{_join(_assign("r", component, f, "op", _op_text(f)) for f in component.fields)}
    return r;
}}
{_state(c, component, accumulator)}"""


def _op_text(field: BoundField) -> str:
    written = _FLOAT_WRITTEN if field.dtype.startswith("float") else _WRITTEN
    return written[field.op].format(field.name) if field.op in COLLECTIVES else field.op


def _assign(target: str, component: Component, field: BoundField, part: str, text: str) -> str:
    """Assign a monoid's text to a field, with line numbers that are the text's own."""
    return f"""\
    {target}.{field.name} = ({FIELD[field.dtype]})(
#line 1 "{component.origin}: {part} of {field.name}"
{text}
#line 1 "generated"
    );"""


def _state(c: str, component: Component, accumulator: Accumulator) -> str:
    numbers = range(len(accumulator.value))
    value = [STORED[name].value for name in accumulator.value]
    xs = " ".join(f"const {value[n]} x{n} = v.x{n};" for n in numbers)
    unpack = f"const {value[0]} x = v.x0; {xs}"
    if component.state is None:
        lifts = _join(_assign("l", component, f, "lift", f.lift) for f in component.fields)
        return f"""\
typedef {c}_t {c}_state;
static {c}_state {c}_begin(void) {{ return {c}_zero(); }}
static {c}_state {c}_step({c}_state s, values_t v, ulong i)
{{
    {unpack}
    {c}_t l;
{lifts}
    return {c}_op(s, l);
}}
static {c}_t {c}_end({c}_state s) {{ return s; }}"""
    state = component.state
    dtype_of = {field.name: field for field in component.fields}
    ends = _join(
        _assign("r", component, dtype_of[name], "accumulate.end", text) for name, text in state.end
    )
    starts = " ".join(f"s.{name} = {literal(start, d)};" for name, d, start in state.fields)
    return f"""\
typedef struct {{ {" ".join(f"{FIELD[d]} {name};" for name, d, _ in state.fields)} }} {c}_state;
static {c}_state {c}_begin(void) {{ {c}_state s; {starts} return s; }}
static {c}_state {c}_step({c}_state s, values_t v, ulong i)
{{
    {unpack}
    {{
#line 1 "{component.origin}: accumulate.step"
{state.step}
#line 1 "generated"
    }}
    return s;
}}
static {c}_t {c}_end({c}_state s)
{{
    {c}_t r;
{ends}
    return r;
}}"""


def _whole(accumulator: Accumulator) -> str:
    """Lay the components side by side."""
    cs = [f"c{number}" for number in range(len(accumulator.components))]

    def each(template: str) -> str:
        return " ".join(template.format(c=c) for c in cs)

    return f"""\
typedef struct {{ {each("{c}_t {c};")} }} acc_t;
typedef struct {{ {each("{c}_state {c};")} }} state_t;
static acc_t chf_zero(void) {{ acc_t r; {each("r.{c} = {c}_zero();")} return r; }}
static acc_t chf_op(acc_t a, acc_t b)
{{
    acc_t r;
    {each("r.{c} = {c}_op(a.{c}, b.{c});")}
    return r;
}}
static state_t chf_begin(void) {{ state_t s; {each("s.{c} = {c}_begin();")} return s; }}
static state_t chf_step(state_t s, values_t v, ulong i)
{{
    {each("s.{c} = {c}_step(s.{c}, v, i);")}
    return s;
}}
static acc_t chf_end(state_t s) {{ acc_t r; {each("r.{c} = {c}_end(s.{c});")} return r; }}"""


def _memory(accumulator: Accumulator) -> str:
    """Read and write accumulators of a partial: one array per slot, behind one another."""
    gets, puts, offset = [], [], 0
    for slot in accumulator.slots:
        ctype = FIELD[slot.field.dtype]
        member = f"a.c{slot.component}.{slot.field.name}"
        gets.append(f"    {member} = ((__global const {ctype} *)(p + {offset}UL * n))[k];")
        puts.append(f"    ((__global {ctype} *)(p + {offset}UL * n))[k] = {member};")
        offset += slot.dtype.itemsize
    return f"""\
#define CHF_SLOT_BYTES {offset}
static acc_t chf_get(__global const uchar *p, ulong n, ulong k)
{{
    acc_t a;
{_join(gets)}
    return a;
}}
static void chf_put(__global uchar *p, ulong n, ulong k, acc_t a)
{{
{_join(puts)}
}}"""


def _collectives(accumulator: Accumulator) -> str:
    if not accumulator.collective:
        return ""
    members = [(f"a.c{s.component}.{s.field.name}", s.field.op) for s in accumulator.slots]

    def function(scope: str) -> str:
        body = " ".join(f"{member} = {scope}_reduce_{op}({member});" for member, op in members)
        return f"static acc_t chf_{scope}_reduce(acc_t a) {{ {body} return a; }}"

    return f"""\
#if CHF_STAGE == 1
{function("work_group")}
#elif CHF_STAGE == 2
{function("sub_group")}
#endif
"""


def _join(lines: Iterable[str] | Sequence[str]) -> str:
    return "\n".join(lines)
