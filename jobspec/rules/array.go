package rules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

func (c *checker) array(a *jobspec.Array) {
	if a == nil {
		return
	}
	c.arraySource(a)
	c.between("array.max_parallel", a.MaxParallel, 0, jobspec.MaxElements)
	if a.MaxFailures != nil {
		c.between("array.max_failures", *a.MaxFailures, -1, jobspec.MaxElements)
	}
	c.choice("array.order", a.Order, "index", "random")
	c.arrayStop(a.Stop)
}

// arraySource checks that an array has exactly one source of elements.
func (c *checker) arraySource(a *jobspec.Array) {
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
		c.add(jobspec.CodeArray, "array", hint, "the array does not name its elements")
	case len(from) > 1:
		c.add(jobspec.CodeArray, "array", hint, "the array has %s, which exclude each other", strings.Join(from, " and "))
	case a.Indices != "":
		c.indices("array.indices", a.Indices)
	case a.Matrix != nil:
		c.matrix(a)
	default:
		c.rows(a)
	}
}

func (c *checker) indices(where, text string) {
	_, err := jobspec.ParseIndices(text)
	if bad := new(jobspec.IndicesError); errors.As(err, &bad) {
		c.add(bad.Code, where, bad.Hint, "%v", bad)
	}
}

func (c *checker) matrix(a *jobspec.Array) {
	c.atMost("array.matrix", len(a.Matrix), jobspec.MaxAxes, "parameters")
	if len(a.Matrix) == 0 {
		c.add(jobspec.CodeParameter, "array.matrix", "write { lr = [0.1, 0.01] }", "the matrix has no parameters")
		return
	}
	bytes, empty, known, sizes := 0, false, map[string]bool{}, make([]string, len(a.Matrix))
	for i, axis := range a.Matrix {
		where := at("array.matrix", i)
		c.parameter(where, axis.Name, known)
		if len(axis.Values) == 0 {
			empty = true
			c.add(jobspec.CodeParameter, where, "give it at least one value, or leave it out",
				"the parameter %q has no values, so the array would have no elements", axis.Name)
		}
		for _, v := range axis.Values {
			c.plainText(where, v)
			bytes += len(v)
		}
		sizes[i] = fmt.Sprint(len(axis.Values))
	}
	if !empty && a.Len() == 0 { // 0 also if there are too many elements
		c.add(jobspec.CodeElements, "array.matrix", "split it into several jobs", "%s combinations are more than %d elements",
			strings.Join(sizes, " x "), jobspec.MaxElements)
	}
	c.atMost("array.matrix", bytes, jobspec.MaxParamBytes, "bytes of parameters")
}

func (c *checker) rows(a *jobspec.Array) {
	known := map[string]bool{}
	c.atMost("array.columns", len(a.Columns), jobspec.MaxAxes, "parameters")
	for i, name := range a.Columns {
		c.parameter(at("array.columns", i), name, known)
	}
	switch {
	case len(a.Columns) == 0:
		c.add(jobspec.CodeParameter, "array.rows", "name the columns in the first line of the file",
			"the array's parameters have no names")
	case len(a.Rows) == 0:
		c.add(jobspec.CodeElements, "array.rows", "after the first line, which names the columns, add a line for each "+
			"element",
			"the array has no elements")
	case len(a.Rows) > jobspec.MaxElements:
		c.add(jobspec.CodeElements, "array.rows", "split it into several jobs", "%d lines are more than %d elements",
			len(a.Rows), jobspec.MaxElements)
	}
	bytes := 0
	for i, row := range a.Rows {
		if len(row) != len(a.Columns) && len(a.Columns) > 0 {
			c.add(jobspec.CodeParameter, at("array.rows", i), "", "element %d has %d values for %d parameters", i, len(row),
				len(a.Columns))
			return
		}
		for _, v := range row {
			c.plainText(at("array.rows", i), v)
			bytes += len(v)
		}
	}
	c.atMost("array.rows", bytes, jobspec.MaxParamBytes, "bytes of parameters")
}

// parameter checks the name of an array parameter, which becomes array.NAME and $ROTA_PARAM_NAME.
func (c *checker) parameter(where, name string, known map[string]bool) {
	switch {
	case name == "index":
		c.add(jobspec.CodeParameter, where, "choose another name",
			"no parameter can be named index, because array.index is the index of the element")
	case !jobspec.ValidParameter(name):
		c.add(jobspec.CodeParameter, where, "use small letters, digits and underscores, beginning with a letter",
			"%q cannot name a parameter", name)
	case known[name]:
		c.add(jobspec.CodeDuplicate, where, "name it differently", "the parameter %q is given twice", name)
	}
	known[name] = true
}

func (c *checker) arrayStop(s *jobspec.ArrayStop) {
	if s == nil {
		return
	}
	c.required("array.stop.metric", s.Metric, `write metric = "loss", or another metric that the program reports`)
	c.atMost("array.stop.metric", len(s.Metric), 63, "bytes")
	c.choice("array.stop.goal", s.Goal, "min", "max")
	switch {
	case s.AtStep == 0:
		c.required("array.stop.at_step", "", "write at_step = 100, a step that the program reports")
	case s.AtStep < 0:
		c.add(jobspec.CodeRange, "array.stop.at_step", "", "%d is out of range: 1 or more", s.AtStep)
	}
	c.required("array.stop.keep", s.Keep, `write keep = "top 25%"`)
	if _, err := jobspec.ParseKeep(s.Keep); err != nil && s.Keep != "" {
		c.add(jobspec.CodeKeep, "array.stop.keep", `write "top 25%" or "top 4"`, "%v", err)
	}
}

// stopMetrics checks that the tasks report the metric that a stop rule compares.
func (c *checker) stopMetrics(j *jobspec.Job) {
	if j.Array == nil || j.Array.Stop == nil {
		return
	}
	s := j.Array.Stop
	for _, t := range j.MainTasks() {
		p := t.Progress
		switch {
		case p == nil:
		case p.Total > 0 && s.AtStep > p.Total:
			c.add(jobspec.CodeStop, "array.stop.at_step", "stop earlier", "step %d is never reached: task %q has %d steps",
				s.AtStep,
				t.Name, p.Total)
		case p.Metric != "" && p.Metric == s.Metric && s.Goal != "" && p.Goal != "" && s.Goal != p.Goal:
			c.add(jobspec.CodeStop, "array.stop.goal", "make both the same", "the goal of %q is %s here, but %s in task %q",
				s.Metric, s.Goal, p.Goal, t.Name)
		}
	}
}

// required refuses an empty text.
func (c *checker) required(where, text, hint string) {
	if text == "" {
		c.add(jobspec.CodeRequired, where, hint, "%s is missing", where[strings.LastIndexByte(where, '.')+1:])
	}
}
