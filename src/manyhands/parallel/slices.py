"""Even, consecutive slices."""


def even_slice(length: int, number: int, num_parts: int) -> slice:
    """One even slice; the first ones are longer by one if the length does not divide."""
    shortest, num_longer = divmod(length, num_parts)
    start = number * shortest + min(number, num_longer)
    return slice(start, start + shortest + (number < num_longer))
