"""A whole cut into consecutive parts, as even as they can be."""


def even_slice(length: int, number: int, num_parts: int) -> slice:
    """One of the parts of a whole; the first ones are longer by one where it does not divide."""
    shortest, num_longer = divmod(length, num_parts)
    start = number * shortest + min(number, num_longer)
    return slice(start, start + shortest + (number < num_longer))
