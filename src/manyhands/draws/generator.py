"""Random numbers of a torch generator, in the order and on the devices of LeRobot."""

import torch
from torch import Generator, Tensor

CPU = torch.device("cpu")


class GeneratorSource:
    """Draws for a batch, on the generator's device; without one, from torch's global generators.

    Without a generator, LeRobot draws common and Beta numbers on the CPU whatever the device is.
    """

    def __init__(
        self, num_samples: int, generator: Generator | None = None, device: torch.device = CPU
    ) -> None:
        self.num_samples = num_samples
        self._generator = generator
        self._device = generator.device if generator else device

    @property
    def common(self) -> "GeneratorSource":
        """A source of one row, the same for all samples."""
        return GeneratorSource(1, self._generator)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (samples, *shape)."""
        size = (self.num_samples, *shape)
        return torch.randn(size, generator=self._generator, device=self._device)

    def uniform(self, *shape: int) -> Tensor:
        """Numbers (samples, *shape) in [0, 1)."""
        size = (self.num_samples, *shape)
        return torch.rand(size, generator=self._generator, device=self._device)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers (samples, *shape) in [0, high)."""
        size = (self.num_samples, *shape)
        return torch.randint(high, size, generator=self._generator, device=self._device)

    def beta(self, alpha: float) -> Tensor:
        """Numbers (samples,) of the distribution Beta(alpha, 1)."""
        # The first component of a Dirichlet distribution, which torch's own Beta draws as well.
        place = self._generator.device if self._generator else CPU
        concentration = torch.tensor([alpha, 1.0], device=place).repeat(self.num_samples, 1)
        return torch._sample_dirichlet(concentration, self._generator)[:, 0]
