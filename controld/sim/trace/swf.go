package trace

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// swfFields is the number of fields of a line of the Standard Workload Format.
const swfFields = 18

// Positions of the fields that are used.
const (
	swfJob         = 0
	swfSubmit      = 1
	swfRun         = 3
	swfProcs       = 4
	swfAskedProcs  = 7
	swfAskedTime   = 8
	swfAskedMemory = 9
	swfStatus      = 10
	swfUser        = 11
	swfGroup       = 12
	swfProgram     = 13
	swfQueue       = 14
)

func readSWF(s *sink, l *lines) error {
	for l.next() {
		text := strings.TrimSpace(l.text)
		if strings.HasPrefix(text, ";") {
			s.swfComment(text)
			continue
		}
		if l.blank() {
			continue
		}
		err := s.swfLine(l)
		if errors.Is(err, errTooMany) {
			return err
		}
		if err != nil {
			s.trace.skip(l.n, l.text, err.Error())
		}
	}
	return l.err
}

// swfComment reads the start of the log from a comment of the header.
func (s *sink) swfComment(text string) {
	key, value, _ := strings.Cut(strings.TrimLeft(text, "; \t"), ":")
	if strings.EqualFold(key, "UnixStartTime") {
		if at, err := field.Whole(value, 0, 1<<40); err == nil {
			s.trace.Epoch = cluster.UnixMS(at * second)
		}
	}
}

func (s *sink) swfLine(l *lines) error {
	if l.long {
		return fmt.Errorf("longer than %d bytes", maxLine)
	}
	f := &swfRow{fields: strings.Fields(l.text)}
	if len(f.fields) != swfFields {
		return fmt.Errorf("%s, not %d", Counted(len(f.fields), "field", "fields"), swfFields)
	}
	j := f.job()
	if f.err != nil {
		return f.err
	}
	return s.add(j, l.n)
}

// swfRow is one line. It keeps the first error.
type swfRow struct {
	fields []string
	err    error
}

func (f *swfRow) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// known reports whether a field has a value; -1 stands for none.
func (f *swfRow) known(i int) bool { return f.fields[i] != "-1" }

// seconds reads a field as ms, at most most.
func (f *swfRow) seconds(i int, what string, most int64) int64 {
	ms, err := field.Scaled(f.fields[i], second, most)
	if err != nil {
		f.fail("the %s (field %d) %w", what, i+1, err)
	}
	return ms
}

func (f *swfRow) whole(i int, what string, least, most int64) int64 {
	n, err := field.Whole(f.fields[i], least, most)
	if err != nil {
		f.fail("the %s (field %d) %w", what, i+1, err)
	}
	return n
}

// name makes a name of a number; an unknown number gives an empty name.
func (f *swfRow) name(prefix string, i int) string {
	if !f.known(i) {
		return ""
	}
	return prefix + f.fields[i]
}

// job reads the line as a job with a worker of one core for each processor used.
func (f *swfRow) job() *Job {
	j := NewJob(f.fields[swfJob])
	j.User, j.Account = f.name("user", swfUser), f.name("group", swfGroup)
	j.Name, j.QoS = f.name("program", swfProgram), f.name("queue", swfQueue)
	if !f.known(swfSubmit) {
		f.fail("the submit time (field %d) is unknown", swfSubmit+1)
	}
	if !f.known(swfRun) {
		f.fail("the run time (field %d) is unknown (status %s)", swfRun+1, field.Shorten(f.fields[swfStatus]))
	}
	j.Submit, j.Work = f.seconds(swfSubmit, "submit time", maxStamp), f.seconds(swfRun, "run time", MaxTime)
	procs := swfProcs // the run time was measured with this number
	if !f.known(procs) {
		procs = swfAskedProcs
	}
	j.Workers = int(f.whole(procs, "number of processors", 1, MaxWorkers))
	j.Request.Cores = 1
	if f.known(swfAskedMemory) {
		kib := f.whole(swfAskedMemory, "requested memory", 0, MaxMemory>>10)
		j.Request.Memory = jobspec.Bytes(kib) * jobspec.KiB
	}
	if f.known(swfAskedTime) {
		j.Estimate = f.seconds(swfAskedTime, "requested time", MaxTime)
	}
	return j
}
