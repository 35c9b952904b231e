"""What pip is to install for some extras, as pyproject.toml says it: a layer of an image that changes when these do, and not
with each line of the project.

Example:
    $ python deploy/requirements.py kafka,web < pyproject.toml > requirements.txt
"""

import sys
import tomllib

project = tomllib.loads(sys.stdin.read())["project"]
extras = [each for each in sys.argv[1].split(",") if each] if len(sys.argv) > 1 else []
if unknown := set(extras) - set(project["optional-dependencies"]):
    sys.exit(f"pyproject.toml has no extra {', '.join(sorted(unknown))}")
wanted = project["dependencies"] + [
    each for extra in extras for each in project["optional-dependencies"][extra]
]
print("\n".join(wanted))
