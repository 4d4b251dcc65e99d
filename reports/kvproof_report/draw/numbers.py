# SPDX-License-Identifier: Apache-2.0
"""Numbers as a reader wants them: thousands separators, SI units, as many digits as matter."""

from typing import Sequence

NARROW_SPACE = "\u202f"  # between a number and its unit: never a line break


def digits(value: float, significant: int = 3) -> str:
    """1234.5 -> '1,234'; 12.345 -> '12.3'; 0.01234 -> '0.0123'."""
    if value == 0:
        return "0"
    probe = abs(float(f"{value:.{significant - 1}e}"))  # the size of the rounded value
    whole = len(str(int(probe))) if probe >= 1 else 0
    if whole == 0:
        decimals = significant
        while probe < 0.1 and decimals < 9:
            probe *= 10
            decimals += 1
    else:
        decimals = max(0, significant - whole)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and decimals > significant else text


def count(value: float) -> str:
    """A whole number: '1,048,576'."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """For axes: '500', '10 k', '2 M', without digits that carry nothing."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size and (size > 1e3 or value >= 10e3):
            return f"{value / size:,.4g}{NARROW_SPACE}{letter}"
    return f"{value:,.4g}"


def binary(value: float) -> str:
    """Pool sizes are powers of two: 65,536 is '64 Ki'."""
    for size, unit in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if value >= size and value % size == 0:
            return f"{value / size:.0f}{NARROW_SPACE}{unit}"
    return count(value)


def scaled(value: float, sizes: Sequence[tuple[float, str]], significant: int = 3) -> str:
    for size, unit in sizes:
        if abs(value) >= size * (1 - 0.5 * 10 ** -significant):  # it rounds up to one of this unit
            return f"{digits(value / size, significant)}{NARROW_SPACE}{unit}"
    size, unit = sizes[-1]
    return f"{digits(value / size, significant)}{NARROW_SPACE}{unit}"


def bytes_text(value: float, significant: int = 3) -> str:
    """SI: 1 GB = 1e9 bytes."""
    return scaled(value, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B")),
                  significant)


def time_text(value_ns: float, significant: int = 3) -> str:
    return scaled(value_ns, ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")), significant)


def percent(share: float, decimals: int = 1) -> str:
    return f"{100 * share:.{decimals}f}{NARROW_SPACE}%"


def times(factor: float) -> str:
    return f"{digits(factor)}{NARROW_SPACE}×"


def tiny(value: float) -> str:
    """A probability that no percentage can show: '3 × 10⁻²¹'."""
    if value == 0 or value >= 1e-3:
        return digits(value)
    mantissa, exponent = f"{value:.0e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{raised}"


def metric_text(value: float, unit: str) -> str:
    """The text of a cell of a table, in the unit that the file states."""
    if unit in ("bytes", "B"):
        return bytes_text(value)
    if unit in ("share", "ratio", "fraction") and 0 <= value <= 1:
        return percent(value, 2)
    if float(value).is_integer() and abs(value) < 1e15:
        return count(value)
    return digits(value, 4)
