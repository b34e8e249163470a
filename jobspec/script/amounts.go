package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// mostNumber bounds what is counted before the job's own rules are asked: products of three cannot overflow.
const mostNumber = 1_000_000

// number reads a whole number of at least 1.
func (a *asked) number(s setting, value string) (int, bool) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > mostNumber {
		a.bad(s, "", "%q is not a number from 1 to %d", value, mostNumber)
		return 0, false
	}
	return n, true
}

func count(field func(a *asked) *counted) func(*asked, setting) {
	return func(a *asked, s setting) {
		if n, ok := a.number(s, s.value); ok {
			*field(a) = counted{n: n, by: s}
		}
	}
}

func size(field func(a *asked) *sized) func(*asked, setting) {
	return func(a *asked, s setting) {
		n, err := slurm.Memory(s.value)
		switch {
		case err != nil:
			a.bad(s, "write a number with K, M, G or T behind it, such as 64G; without one it is MiB", "%q is not a size", s.value)
		case n == 0 && s.spec.Name == "mem":
			a.refuse(s, "write how much the job needs", "0, all memory of a node, cannot be asked for")
		case n == 0:
			a.bad(s, "", "%q is no memory at all", s.value)
		default:
			*field(a) = sized{n, s}
		}
	}
}

// gpus reads [MODEL:]N.
func gpus(field func(a *asked) *counted) func(*asked, setting) {
	return func(a *asked, s setting) {
		if strings.Contains(s.value, ",") {
			a.refuse(s, "ask for GPUs of one model", "asks for GPUs of several models, which a worker cannot have")
			return
		}
		model, number, typed := cutLast(s.value, ":")
		if !typed {
			model, number = "", s.value
		}
		if n, ok := a.number(s, number); ok && a.isModel(s, model) {
			*field(a) = counted{n, s, model}
		}
	}
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// isModel refuses what can be no model of GPUs.
func (a *asked) isModel(s setting, model string) bool {
	if model != "" && !jobspec.ValidName(model) {
		a.bad(s, "write a100:4, or 4 for any model", "%q is not a model of GPUs", cutShort(model))
		return false
	}
	return true
}

// gres reads gpu, gpu:N, gpu:MODEL and gpu:MODEL:N; several kinds stand apart by commas.
func (a *asked) gres(s setting) {
	a.gpuGres = counted{by: s}
	for item := range strings.SplitSeq(s.value, ",") {
		item = strings.TrimPrefix(item, "gres/")
		if cut := strings.Index(item, "("); cut >= 0 {
			item = item[:cut]
		}
		kind, rest, more := strings.Cut(item, ":")
		switch {
		case strings.EqualFold(s.value, "none"):
		case kind == "":
			a.bad(s, "write gpu:4 or gpu:a100:4", "%q names nothing", s.value)
		case kind == "help":
			a.bad(s, "rota nodes shows the GPUs of the nodes", "help is not given here")
		case kind != "gpu":
			a.refuse(s, "only GPUs are counted: write gpu:N, or leave it out", "asks for %q", kind)
		case a.gpuGres.n > 0:
			a.refuse(s, "ask for GPUs of one model", "asks for GPUs of several models, which a worker cannot have")
		default:
			a.gpuGresOf(s, rest, more)
		}
	}
}

func (a *asked) gpuGresOf(s setting, rest string, more bool) {
	model, number, typed := cutLast(rest, ":")
	switch {
	case !more:
		model, number = "", "1"
	case !typed && rest != "" && strings.Trim(rest, "0123456789") == "":
		model, number = "", rest
	case !typed:
		model, number = rest, "1"
	}
	if number == "0" {
		return
	}
	if n, ok := a.number(s, number); ok && a.isModel(s, model) {
		a.gpuGres = counted{n, s, model}
	}
}

// nodes reads N or MIN-MAX.
func (a *asked) nodes(s setting) {
	low, high, isRange := strings.Cut(s.value, "-")
	if !isRange {
		high = low
	}
	if strings.ContainsAny(s.value, ",:") {
		a.refuse(s, "write one number", "%q: a choice between numbers of nodes cannot be made", s.value)
		return
	}
	from, ok := a.number(s, low)
	to, okTo := a.number(s, high)
	switch {
	case !ok || !okTo:
	case to < from:
		a.bad(s, "", "%q: the most is less than the least", s.value)
	case to > from:
		a.refuse(s, fmt.Sprintf("write --nodes=%d", from), "%q: the number of nodes cannot be left open", s.value)
		a.nodeCount = counted{n: from, by: s}
	default:
		a.nodeCount = counted{n: from, by: s}
	}
}
