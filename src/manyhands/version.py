"""The version of this package: the one place that states it, also for the build.

The metadata of an installation is not asked: a source tree on the path has none.
"""

VERSION = "0.1.0"
