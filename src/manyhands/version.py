"""The version of this package: the one place that states it, also for the build.

It does not read installed metadata, which a source tree on the path lacks.
"""

VERSION = "0.1.0"
