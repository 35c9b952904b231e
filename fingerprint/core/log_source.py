"""The log source of this process: the package that knows the records, their identities and their features.

Example:
    >>> LOG_SOURCE_PACKAGE
    'fingerprint.sources.cloudtrail'

Estimators and state read the positions of feature columns when they are imported, so one process reads one log source. The choice
is therefore not a setting but an environment variable, which worker processes inherit. `fingerprint.features.encoding` loads the
module `features` of the package, `fingerprint.sources.active` the module `source` (`fingerprint.sources.protocol.LogSource`).
"""

from __future__ import annotations

import os

LOG_SOURCE_VARIABLE = "LOG_SOURCE_PACKAGE"
LOG_SOURCE_PACKAGE = os.environ.get(LOG_SOURCE_VARIABLE, "fingerprint.sources.cloudtrail")
