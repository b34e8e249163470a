package steps

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/script"
)

// mostTasks bounds the number of tasks that a configuration file names.
const mostTasks = 1 << 16

// readMultiProg parses a configuration file of --multi-prog: each line has task numbers (0-3,7 or
// *), then a program and its arguments. In the arguments, %t is the task's number, and %o its
// position within the line. tasks is the number of tasks of the step, or 0 if unknown.
func readMultiProg(text string, tasks int) ([]api.StepProgram, error) {
	var list []api.StepProgram
	seen := map[int]bool{}
	rest := false
	for number, line := range joinedLines(text) {
		words, err := script.SplitWords(line, false)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
			continue
		case len(words) == 1:
			return nil, fmt.Errorf("line %d: a program is missing", number)
		case rest:
			return nil, fmt.Errorf("line %d: * stands for all remaining tasks, and must be last", number)
		}
		var ids []int
		if rest = words[0] == "*"; rest {
			for id := range tasks {
				if !seen[id] {
					ids = append(ids, id)
				}
			}
		} else if ids, err = readTaskNumbers(words[0]); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		for _, id := range ids {
			if seen[id] && !rest {
				return nil, fmt.Errorf("line %d: task %d is named twice", number, id)
			}
			if tasks > 0 && id >= tasks {
				return nil, fmt.Errorf("line %d: Invalid task id, %d >= ntasks", number, id)
			}
			seen[id] = true
		}
		programs, err := programsOf(ids, words[1:], rest)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list = append(list, programs...)
	}
	for id := range tasks {
		if !seen[id] && !rest {
			return nil, fmt.Errorf("no record for task id %d", id)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the line has no program")
	}
	return list, nil
}

// programsOf returns one program if all tasks run the same, otherwise one for each task.
func programsOf(ids []int, argv []string, rest bool) ([]api.StepProgram, error) {
	differ := slices.ContainsFunc(argv, func(a string) bool {
		return strings.Contains(a, "%t") || strings.Contains(a, "%o")
	})
	switch {
	case !differ && rest:
		return []api.StepProgram{{Argv: argv}}, nil
	case !differ:
		return []api.StepProgram{{Tasks: ids, Argv: argv}}, nil
	case rest && len(ids) == 0:
		return nil, errors.New("%t and %o in the line for * need the number of tasks: give it with -n")
	}
	var list []api.StepProgram
	for i, id := range ids {
		own := make([]string, len(argv))
		for k, a := range argv {
			own[k] = strings.NewReplacer("%t", strconv.Itoa(id), "%o", strconv.Itoa(i)).Replace(a)
		}
		list = append(list, api.StepProgram{Tasks: []int{id}, Argv: own})
	}
	return list, nil
}

// joinedLines calls a function for each line of a text, with its number. A backslash at the end of
// a line joins it with the next line.
func joinedLines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		begin, whole := 0, ""
		for i, line := range strings.Split(text, "\n") {
			if whole == "" {
				begin = i + 1
			}
			line = strings.TrimSuffix(line, "\r")
			if more, found := strings.CutSuffix(line, `\`); found {
				whole += more + " "
				continue
			}
			if !yield(begin, whole+line) {
				return
			}
			whole = ""
		}
		if whole != "" {
			yield(begin, whole)
		}
	}
}

// readTaskNumbers parses a list such as 0-3,7.
func readTaskNumbers(text string) ([]int, error) {
	var ids []int
	for part := range strings.SplitSeq(text, ",") {
		least, most, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(least)
		high := low
		if err == nil && isRange {
			high, err = strconv.Atoi(most)
		}
		if err != nil || low < 0 || high < low || high >= mostTasks {
			return nil, fmt.Errorf("%q is no list of tasks: write 0-3,7", part)
		}
		for id := low; id <= high; id++ {
			ids = append(ids, id)
		}
		if len(ids) > mostTasks {
			return nil, fmt.Errorf("more than %d tasks", mostTasks)
		}
	}
	return ids, nil
}
