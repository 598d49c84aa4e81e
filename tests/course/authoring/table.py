"""The rules that the course's table keeps, beside those without which it cannot be loaded."""
from student import checks, regions

LONGEST_CAUSE = 28  # words


def problems(root, stages):
    """What is wrong with a loaded course, in words: the rules that the table itself must keep."""
    hints = regions.tree_regions(root, "hint", ["stages"])
    for stage in stages.values():
        names = [task.name for task in stage.tasks]
        if len(names) < 4:
            yield f"stage {stage.number} has {len(names)} tasks; at least four are the lesson"
        if sum(task.points for task in stage.tasks) != 100:
            yield f"the points of stage {stage.number} are {sum(t.points for t in stage.tasks)}, not 100"
        for task in stage.tasks:
            if not task.name.startswith(f"{stage.number}."):
                yield f"task {task.name} is no task of stage {stage.number}"
            if not task.page.endswith(".md"):
                yield f"no page of {stage.chapter} says: You can now do **task {task.name}**."
            if not any(check.task == task.name for check in stage.checks):
                yield f"task {task.name} has no check"
            lines = region_lines(root, task)
            if not 5 <= lines <= 40:
                yield f"task {task.name} has {lines} lines; 5 to 40 are a task"
            for n in (1, 2):
                if f"{task.name}.{n}" not in hints:
                    yield f"task {task.name} lacks hint {n}"
        for check in stage.checks:
            for name in [check.task, *check.needs]:
                if name not in names:
                    yield f"check {check.name} of stage {stage.number} names task {name}, which is none of its"
            yield from causes(root, stage, check)
        repeated = {check.name for check in stage.checks if [c.name for c in stage.checks].count(check.name) > 1}
        for name in sorted(repeated):
            yield f"check {name} stands twice in stage {stage.number}"


def causes(root, stage, check):
    """What is wrong with the causes that a check names: one for each fact, each short, none for nothing."""
    where = f"check {check.name} of stage {stage.number}"
    known = checks.load_expected(root, stage).get(check.name, {}).values()
    facts = {fact for seed in known for fact, _ in seed} or {""}
    for fact in sorted(facts):
        if checks.cause_of(check, fact) is None:
            yield f"{where} names no cause for '{fact}'"
    for part, words in check.causes.items():
        if not any(checks.cause_of(check, fact) == words for fact in facts):
            yield f"{where} names a cause for '{part}', of which no fact speaks"
        if len(words.split()) > LONGEST_CAUSE:
            yield f"{where} names a cause of {len(words.split())} words for '{part}'; at most {LONGEST_CAUSE}"


def region_lines(root, task):
    """How many lines of text a task's region has."""
    text = (root / task.path).read_text(encoding="utf-8")
    region = next(r for r in regions.parse(text, task.path) if r.full_name == f"task {task.name}")
    text = regions.text_of(text, region)
    return sum(1 for line in text.splitlines() if line.strip())
