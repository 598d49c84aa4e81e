#!/bin/sh
# Runs once, as root, when the grader's image is made: installs packages and builds the assignment,
# whose tasks are not done, so that no submission can find a solution here.
set -eu
cd "$(dirname "$0")/project"
stages/programs/setup course
# The image may be made on another machine than the one that grades.
case "$(uname -m)" in x86_64) march=x86-64-v3 ;; *) march=native ;; esac
cmake --preset cpu -DSPECDEC_MARCH="$march"
cmake --build --preset cpu --target {programs}
# What is expected is for us to read, not for what is graded.
chmod -R go-rwx tests/course/expected golden/goldens
[ ! -f ../hidden.json ] || chmod 600 ../hidden.json
