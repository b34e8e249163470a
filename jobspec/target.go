package jobspec

import (
	"fmt"
	"strings"
)

// Target is what a dependency waits for: a job by id, an element of an array, or the owner's newest
// job of a name.
type Target struct {
	ID      int64
	Element bool // only the element with Index
	Index   int
	Name    string // set if the job is named, and the other fields are not
}

// ParseTarget reads 123, 123_4 or a name. A text of digits, or of digits around one underscore, is
// an id.
func ParseTarget(text string) (Target, error) {
	job, index, isElement := strings.Cut(text, "_")
	digits := isDigits(job) && (!isElement || isDigits(index))
	switch {
	case !digits && ValidName(text):
		return Target{Name: text}, nil
	case !digits:
		return Target{}, fmt.Errorf("%q is neither the id nor the name of a job", text)
	case len(job) > 18 || job[0] == '0' || len(index) > 10 || isElement && number(index) > MaxIndex:
		return Target{}, fmt.Errorf("%q cannot be the id of a job", text)
	}
	var id int64
	for _, d := range job {
		id = id*10 + int64(d-'0')
	}
	if !isElement {
		return Target{ID: id}, nil
	}
	return Target{ID: id, Element: true, Index: number(index)}, nil
}
