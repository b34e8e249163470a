package jobspec

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of what an array's parameters take up in its record.
const (
	MaxAxes       = 32
	MaxParamBytes = 1 << 20
)

func (c *checker) array(a *Array) {
	if a == nil {
		return
	}
	c.arraySource(a)
	c.between("array.max_parallel", a.MaxParallel, 0, MaxElements)
	if a.MaxFailures != nil {
		c.between("array.max_failures", *a.MaxFailures, -1, MaxElements)
	}
	c.choice("array.order", a.Order, "index", "random")
	c.arrayStop(a.Stop)
}

// arraySource checks where the elements come from: one of three.
func (c *checker) arraySource(a *Array) {
	var from []string
	if a.Indices != "" {
		from = append(from, "indices")
	}
	if a.Matrix != nil {
		from = append(from, "matrix")
	}
	if a.Rows != nil || a.Columns != nil {
		from = append(from, "file")
	}
	const hint = `write one of indices = "0-99", matrix = { lr = [0.1, 0.01] } and file = "params.csv"`
	switch {
	case len(from) == 0:
		c.add(CodeArray, "array", hint, "the array does not say which elements it has")
	case len(from) > 1:
		c.add(CodeArray, "array", hint, "the array has %s, which exclude each other", strings.Join(from, " and "))
	case a.Indices != "":
		c.indices("array.indices", a.Indices)
	case a.Matrix != nil:
		c.matrix(a)
	default:
		c.rows(a)
	}
}

func (c *checker) indices(where, text string) {
	_, err := ParseIndices(text)
	if bad := new(IndicesError); errors.As(err, &bad) {
		c.add(bad.Code, where, bad.Hint, "%v", bad)
	}
}

func (c *checker) matrix(a *Array) {
	c.atMost("array.matrix", len(a.Matrix), MaxAxes, "parameters")
	if len(a.Matrix) == 0 {
		c.add(CodeParameter, "array.matrix", "write { lr = [0.1, 0.01] }", "the matrix has no parameters")
		return
	}
	bytes, known, sizes := 0, map[string]bool{}, make([]string, len(a.Matrix))
	for i, axis := range a.Matrix {
		where := at("array.matrix", i)
		c.parameter(where, axis.Name, known)
		if len(axis.Values) == 0 {
			c.add(CodeParameter, where, "give it at least one value, or leave it out", "the parameter %q has no values, so the array would have no elements", axis.Name)
		}
		for _, v := range axis.Values {
			c.text(where, v)
			bytes += len(v)
		}
		sizes[i] = fmt.Sprint(len(axis.Values))
	}
	if a.combinations() > MaxElements {
		c.add(CodeElements, "array.matrix", "split it into several jobs", "%s combinations are more than %d elements", strings.Join(sizes, " x "), MaxElements)
	}
	c.atMost("array.matrix", bytes, MaxParamBytes, "bytes of parameters")
}

func (c *checker) rows(a *Array) {
	known := map[string]bool{}
	c.atMost("array.columns", len(a.Columns), MaxAxes, "parameters")
	for i, name := range a.Columns {
		c.parameter(at("array.columns", i), name, known)
	}
	switch {
	case len(a.Columns) == 0:
		c.add(CodeParameter, "array.rows", "name the columns in the first line of the file", "the array's parameters have no names")
	case len(a.Rows) == 0:
		c.add(CodeElements, "array.rows", "add a line for each element behind the first, which names the columns", "the array has no elements")
	case len(a.Rows) > MaxElements:
		c.add(CodeElements, "array.rows", "split it into several jobs", "%d lines are more than %d elements", len(a.Rows), MaxElements)
	}
	bytes := 0
	for i, row := range a.Rows {
		if len(row) != len(a.Columns) && len(a.Columns) > 0 {
			c.add(CodeParameter, at("array.rows", i), "", "element %d has %d values for %d parameters", i, len(row), len(a.Columns))
			return
		}
		for _, v := range row {
			c.text(at("array.rows", i), v)
			bytes += len(v)
		}
	}
	c.atMost("array.rows", bytes, MaxParamBytes, "bytes of parameters")
}

// parameter checks the name of an array's parameter, which becomes array.NAME and $ROTA_PARAM_NAME.
func (c *checker) parameter(where, name string, known map[string]bool) {
	switch {
	case name == "index":
		c.add(CodeParameter, where, "choose another name", "array.index is the index of the element, so no parameter can be named index")
	case !validParameter(name):
		c.add(CodeParameter, where, "use small letters, digits and underscores, beginning with a letter", "%q cannot name a parameter", name)
	case known[name]:
		c.add(CodeDuplicate, where, "name it differently", "the parameter %q is there twice", name)
	}
	known[name] = true
}

func validParameter(name string) bool {
	for i := range len(name) {
		if c := name[i]; !(c >= 'a' && c <= 'z') && !(i > 0 && (isDigit(c) || c == '_')) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}

func (c *checker) arrayStop(s *ArrayStop) {
	if s == nil {
		return
	}
	c.required("array.stop.metric", s.Metric, `write metric = "loss", as the program reports it`)
	c.atMost("array.stop.metric", len(s.Metric), 63, "bytes")
	c.choice("array.stop.goal", s.Goal, "min", "max")
	switch {
	case s.AtStep == 0:
		c.required("array.stop.at_step", "", "write at_step = 100, a step that the program reports")
	case s.AtStep < 0:
		c.add(CodeRange, "array.stop.at_step", "", "%d is out of range: 1 or more", s.AtStep)
	}
	c.required("array.stop.keep", s.Keep, `write keep = "top 25%"`)
	if _, err := ParseKeep(s.Keep); err != nil && s.Keep != "" {
		c.add(CodeKeep, "array.stop.keep", `write "top 25%" or "top 4"`, "%v", err)
	}
}

// stopFeeds checks a stop rule against what the tasks report.
func (c *checker) stopFeeds(j *Job) {
	if j.Array == nil || j.Array.Stop == nil {
		return
	}
	s := j.Array.Stop
	for _, t := range j.mainTasks() {
		p := t.Progress
		switch {
		case p == nil:
		case p.Total > 0 && s.AtStep > p.Total:
			c.add(CodeStop, "array.stop.at_step", "stop earlier", "step %d never comes: task %q has %d steps", s.AtStep, t.Name, p.Total)
		case p.Metric != "" && p.Metric == s.Metric && s.Goal != "" && p.Goal != "" && s.Goal != p.Goal:
			c.add(CodeStop, "array.stop.goal", "make both the same", "the goal of %q is %s here and %s in task %q", s.Metric, s.Goal, p.Goal, t.Name)
		}
	}
}

// required refuses an empty text that must be there.
func (c *checker) required(where, text, hint string) {
	if text == "" {
		c.add(CodeRequired, where, hint, "%s is missing", where[strings.LastIndexByte(where, '.')+1:])
	}
}
