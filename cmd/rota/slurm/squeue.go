package slurm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// defaultFormat is that of squeue without -o.
const defaultFormat = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"

// field is a column of squeue.
type field struct {
	title string
	text  func(*api.Job) string
}

// fields are the columns by their letters in a format.
var fields = map[byte]field{
	'i': {"JOBID", show.JobName},
	'A': {"JOBID", func(j *api.Job) string { return show.ID(j.ID) }},
	'j': {"NAME", func(j *api.Job) string { return j.Name }},
	'u': {"USER", func(j *api.Job) string { return j.User }},
	'a': {"ACCOUNT", func(j *api.Job) string { return j.Account }},
	'P': {"PARTITION", func(j *api.Job) string { return j.Queue }},
	'q': {"QOS", func(j *api.Job) string { return string(j.Class) }},
	't': {"ST", shortState},
	'T': {"STATE", longState},
	'M': {"TIME", func(j *api.Job) string { return show.Clock(runTime(j)) }},
	'l': {"TIME_LIMIT", func(j *api.Job) string { return shortLimit(j.TimeLimit) }},
	'L': {"TIME_LEFT", left},
	'D': {"NODES", func(j *api.Job) string { return strconv.Itoa(show.NodeCount(j)) }},
	'C': {"CPUS", func(j *api.Job) string { return strconv.Itoa(j.Cores) }},
	'm': {"MIN_MEMORY", func(j *api.Job) string { return memory(perNode(j.Memory, j)) }},
	'b': {"TRES_PER_NODE", func(j *api.Job) string {
		if j.GPUs == 0 {
			return "N/A"
		}
		return fmt.Sprintf("gres/gpu:%d", perNode(j.GPUs, j))
	}},
	'N': {"NODELIST", nodes},
	'R': {"NODELIST(REASON)", func(j *api.Job) string {
		if waits(j) || len(j.Nodes) == 0 {
			return "(" + reasonCode(j) + ")"
		}
		return nodes(j)
	}},
	'r': {"REASON", reasonCode},
	'B': {"EXEC_HOST", func(j *api.Job) string {
		if waits(j) || len(j.Nodes) == 0 {
			return "n/a"
		}
		return j.Nodes[0]
	}},
	'V': {"SUBMIT_TIME", func(j *api.Job) string { return when(j.Submitted) }},
	'S': {"START_TIME", func(j *api.Job) string {
		if waits(j) {
			return "N/A"
		}
		return when(j.Started)
	}},
	'e': {"END_TIME", endOf},
	'Q': {"PRIORITY", func(j *api.Job) string { return strconv.Itoa(j.Priority) }},
}

func nodes(j *api.Job) string {
	if waits(j) {
		return ""
	}
	return show.Hosts(j.Nodes)
}

// piece is a part of a format: text, or a field with its width.
type piece struct {
	text  string
	field *field
	width int  // 0: as wide as it is
	right bool // to the right of its width
}

// parseFormat reads a format of squeue, such as "%.18i %t".
func parseFormat(format string) ([]piece, error) {
	var pieces []piece
	for rest := format; rest != ""; {
		text, after, found := strings.Cut(rest, "%")
		if text != "" {
			pieces = append(pieces, piece{text: text})
		}
		if !found {
			break
		}
		var p piece
		if after, p.right = strings.CutPrefix(after, "."); p.right && (after == "" || after[0] < '0' || after[0] > '9') {
			return nil, fmt.Errorf("the format %q has a '.' without a width", format)
		}
		if n, tail, ok := command.LeadingInt(after); ok {
			if n > 1000 {
				return nil, fmt.Errorf("the width %d of the format %q is above 1000", n, format)
			}
			p.width, after = int(n), tail
		}
		if after == "" {
			return nil, fmt.Errorf("the format %q ends in a '%%'", format)
		}
		f, known := fields[after[0]]
		if !known {
			return nil, fmt.Errorf("%%%c of the format %q is not supported: %s are", []rune(after)[0], format, letters())
		}
		p.field, rest = &f, after[1:]
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// letters names the fields that there are.
func letters() string {
	var all []string
	for letter := range fields {
		all = append(all, "%"+string(letter))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// write writes a value in its width, cut off if it is longer.
func (p *piece) write(out *bufio.Writer, value string) {
	n := utf8.RuneCountInString(value)
	if p.width > 0 && n > p.width {
		value, n = string([]rune(value)[:p.width]), p.width
	}
	space := strings.Repeat(" ", max(p.width-n, 0))
	if p.right {
		value = space + value
	} else {
		value += space
	}
	_, _ = out.WriteString(value) // Flush returns the error
}

// squeue lists jobs that have not ended.
func (t *tool) squeue(ctx context.Context, args []string) error {
	f := t.flags()
	noHeader := f.BoolP("noheader", "h", false, "")
	format := f.StringP("format", "o", defaultFormat, "")
	users := f.StringP("user", "u", "", "")
	me := f.Bool("me", false, "")
	jobs := f.StringP("jobs", "j", "", "")
	f.StringVar(users, "users", "", "")
	f.StringVar(jobs, "job", "", "")
	rest, err := t.parse(f, args)
	switch {
	case errors.Is(err, errHelp):
		return nil
	case err != nil:
		return err
	case len(rest) > 0:
		return fmt.Errorf("Unrecognized option: %s", rest[0]) //nolint:misspell // Slurm's word
	}
	for _, name := range []string{"user", "users", "job", "jobs"} {
		if flag := f.Lookup(name); flag.Changed && strings.Trim(flag.Value.String(), " ,") == "" {
			return fmt.Errorf("--%s is empty", name)
		}
	}
	pieces, err := parseFormat(*format)
	if err != nil {
		return err
	}
	filter, who, err := selection(*jobs, *users)
	if err != nil {
		return err
	}
	if *me {
		who = append(who, strconv.Itoa(os.Getuid()))
	}
	s, err := t.connect()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.Stdout)
	row := func(value func(*field) string) {
		for i := range pieces {
			if p := &pieces[i]; p.field == nil {
				_, _ = out.WriteString(p.text)
			} else {
				p.write(out, value(p.field))
			}
		}
		_ = out.WriteByte('\n')
	}
	if !*noHeader {
		row(func(f *field) string { return f.title })
	}
	found := false
	_, err = s.EachJob(ctx, filter, api.Read{}, func(j *api.Job) error {
		found = true
		if isListed(j, who) {
			row(func(f *field) string { return show.Clean(f.text(j)) })
		}
		return nil
	})
	switch {
	case err != nil:
		return loadFailure(err)
	case len(filter.Refs) == 1 && !found:
		return &loadError{"Invalid job id specified"}
	}
	return out.Flush()
}

// selection reads which jobs are asked for, and of which users.
func selection(jobs, users string) (f api.JobFilter, who []string, err error) {
	if jobs != "" {
		f.All = true // so that one that has ended is not taken for one that there is not
		if f.Refs, err = command.JobRefs([]string{jobs}); err != nil {
			return f, nil, fmt.Errorf("Invalid job id: %s", jobs)
		}
	}
	return f, command.SplitList(users), nil
}

// isListed reports whether a job has not ended, and is of one of the users, by name or number. An
// array without pending tasks has no line of its own.
func isListed(j *api.Job, who []string) bool {
	if j.Code.Final() || show.IsArray(j) && j.Array.Indices == "" || show.IsPipeline(j) {
		return false
	}
	return len(who) == 0 || slices.Contains(who, j.User) || slices.Contains(who, strconv.Itoa(int(j.UID)))
}
