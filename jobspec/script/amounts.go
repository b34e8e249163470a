package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// mostNumber bounds numbers before the rules of jobs are checked, so that a product of three cannot
// overflow.
const mostNumber = 1_000_000

// number reads a whole number of at least 1.
func (a *request) number(s setting, value string) (int, bool) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > mostNumber {
		a.badValue(s, "", "%q is not a number from 1 to %d", value, mostNumber)
		return 0, false
	}
	return n, true
}

func numberFlag(field func(a *request) *counted) func(*request, setting) {
	return func(a *request, s setting) {
		if n, ok := a.number(s, s.value); ok {
			*field(a) = counted{n: n, by: s}
		}
	}
}

func sizeFlag(field func(a *request) *counted) func(*request, setting) {
	return func(a *request, s setting) {
		n, err := slurm.Memory(s.value)
		switch {
		case err != nil:
			a.badValue(s, "write a number followed by K, M, G or T, such as 64G; without a unit it is MiB", "%q is not a size",
				s.value)
		case n == 0 && s.spec.Name == "mem":
			a.mem, a.allMemory = counted{by: s}, s
		case n == 0:
			a.badValue(s, "", "%q: the amount must not be zero", s.value)
		default:
			*field(a) = counted{n: int(n), by: s}
		}
	}
}

// gpus reads [MODEL:]N.
func gpusFlag(field func(a *request) *counted) func(*request, setting) {
	return func(a *request, s setting) {
		if strings.Contains(s.value, ",") {
			a.refuseFlag(s, "ask for GPUs of one model", "asks for several GPU models, which a worker cannot have")
			return
		}
		model, number, typed := cutLast(s.value, ":")
		if !typed {
			model, number = "", s.value
		}
		if strings.Trim(number, "0") == "" && number != "" {
			*field(a) = counted{by: s} // no GPU
			return
		}
		if n, ok := a.number(s, number); ok && a.checkModel(s, model) {
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

// checkModel reports whether a text can name a GPU model.
func (a *request) checkModel(s setting, model string) bool {
	if model != "" && !jobspec.ValidName(model) {
		a.badValue(s, "write a100:4, or 4 for any model", "%q is not a GPU model", cutShort(model))
		return false
	}
	return true
}

// gres parses gpu, gpu:N, gpu:MODEL and gpu:MODEL:N, separated by commas.
func (a *request) gres(s setting) {
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
			a.badValue(s, "write gpu:4 or gpu:a100:4", "%q names nothing", s.value)
		case kind == "help":
			a.badValue(s, "rota nodes shows the GPUs of the nodes", "help is not supported")
		case kind == "shard" || kind == "mps":
			a.refuseFlag(s, "write gpus = 0.5 in a job file, or rota run --gpus 0.5",
				"asks for a part of a GPU in a unit unknown to Rota")
		case kind != "gpu":
			a.refuseFlag(s, "only GPUs can be requested: write gpu:N, or leave it out", "asks for %q", kind)
		case a.gpuGres.n > 0:
			a.refuseFlag(s, "ask for GPUs of one model", "asks for several GPU models, which a worker cannot have")
		default:
			a.setGres(s, rest, more)
		}
	}
}

func (a *request) setGres(s setting, rest string, more bool) {
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
	if n, ok := a.number(s, number); ok && a.checkModel(s, model) {
		a.gpuGres = counted{n, s, model}
	}
}

// nodes reads N or MIN-MAX.
func (a *request) nodes(s setting) {
	low, high, isRange := strings.Cut(s.value, "-")
	if !isRange {
		high = low
	}
	if strings.ContainsAny(s.value, ",:") {
		a.refuseFlag(s, "write one number", "%q: a choice between several numbers of nodes is not supported", s.value)
		return
	}
	from, ok := a.number(s, low)
	to, okTo := a.number(s, high)
	switch {
	case !ok || !okTo:
	case to < from:
		a.badValue(s, "", "%q: the maximum is less than the minimum", s.value)
	case to > from:
		a.refuseFlag(s, fmt.Sprintf("write --nodes=%d", from), "%q: a range of numbers of nodes is not supported", s.value)
		a.nodeCount = counted{n: from, by: s}
	default:
		a.nodeCount = counted{n: from, by: s}
	}
}
