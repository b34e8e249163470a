package steps

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/logpath"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// stepOutput writes the output of a step's tasks to srun's own streams or to files.
type stepOutput struct {
	tool  *tool.Tool
	line  *srunLine
	dir   string // base directory of relative paths
	begun api.StepBegun
	nodes []int // node of each task, as an index into begun.Nodes

	stdout, stderr spec
	label          bool
	files          map[string]*os.File
	writers        map[io.Writer]*lossy.Writer // of each file and stream
	sinks          map[from]*sink
	lost           lossy.Loss // output that could not be written
}

// from identifies one output stream of one task.
type from struct {
	task   uint32
	stderr bool
}

// spec says where a stream of all tasks goes.
type spec struct {
	none    bool
	only    int    // with none: the only task whose output is shown; -1: no task
	pattern string // pattern of the files; "": srun's own stream
}

// sink is the destination of one stream of one task.
type sink struct {
	to    io.Writer
	of    *stepOutput
	label string // prefix of each line
	whole bool   // write only whole lines, because other tasks write to the same file
	part  []byte // start of a line whose end has not arrived
}

// readSpec parses the value of --output or --error.
func readSpec(text string) spec {
	switch {
	case text == "" || strings.EqualFold(text, "all"):
		return spec{}
	case strings.EqualFold(text, "none"):
		return spec{none: true, only: -1}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return spec{none: true, only: n}
	}
	return spec{pattern: text}
}

// newStepOutput decides where the output goes, and refuses impossible requests.
func newStepOutput(t *tool.Tool, line *srunLine, r *api.StepRequest) (*stepOutput, error) {
	o := &stepOutput{tool: t, line: line, dir: r.Workdir, label: line.is("label"),
		stdout: readSpec(line.values["output"]), files: map[string]*os.File{},
		writers: map[io.Writer]*lossy.Writer{}, sinks: map[from]*sink{}}
	if o.stderr = o.stdout; line.has("error") {
		o.stderr = readSpec(line.values["error"])
	} else if o.stdout.none {
		o.stderr = spec{}
	}
	switch mode := line.values["open-mode"]; mode {
	case "", "a", "append", "t", "truncate":
	default:
		return nil, fmt.Errorf("Invalid --open-mode specification: %q: write append or truncate", mode)
	}
	if line.is("pty") && (line.has("output") || line.has("error") || line.has("input")) {
		return nil, errors.New("--error/--input/--output are incompatible with --pty")
	}
	for _, s := range []spec{o.stdout, o.stderr} {
		path, err := o.expand(s.pattern, 0, 0, "n")
		if err == nil {
			err = writable(path, s.pattern)
		}
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// writable refuses a pattern if its directory has no placeholders and cannot take files, so that no
// step runs in vain. path is the path of one file.
func writable(path, pattern string) error {
	if pattern == "" || strings.Contains(filepath.Dir(pattern), "%") {
		return nil
	}
	var mode uint32 = unix.X_OK
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && !strings.Contains(pattern, "%") {
		mode |= unix.W_OK // the file does not exist, so the directory must be writable
	}
	if err := unix.Access(filepath.Dir(path), mode); err != nil {
		return cannotOpen(&os.PathError{Op: "open", Path: path, Err: err})
	}
	return nil
}

func cannotOpen(err error) error { return fmt.Errorf("Could not open file for output: %w", err) }

// begin opens the files of all tasks after the step began.
func (o *stepOutput) begin(b api.StepBegun) error {
	o.begun, o.nodes = b, b.TaskNodes()
	for task := range o.nodes {
		for _, stderr := range []bool{false, true} {
			if _, err := o.sinkOf(from{uint32(task), stderr}); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeOf returns the name of the task's node.
func (o *stepOutput) nodeOf(task uint32) string {
	if int(task) >= len(o.nodes) || o.nodes[task] >= len(o.begun.Nodes) {
		return "unknown"
	}
	return o.begun.Nodes[o.nodes[task]]
}

// sinkOf returns the sink of a task's stream.
func (o *stepOutput) sinkOf(f from) (*sink, error) {
	if s := o.sinks[f]; s != nil {
		return s, nil
	}
	where, own := o.stdout, o.tool.Stdout
	if f.stderr {
		where, own = o.stderr, o.tool.Stderr
	}
	tasks := len(o.nodes)
	s := &sink{to: own, of: o, whole: tasks > 1 && !o.line.is("unbuffered")}
	switch {
	case where.none && where.only != int(f.task):
		s.to, s.whole = io.Discard, false
	case where.pattern != "":
		node := 0
		if int(f.task) < tasks {
			node = o.nodes[f.task]
		}
		path, err := o.expand(where.pattern, int(f.task), node, o.nodeOf(f.task))
		if err != nil {
			return nil, err
		}
		if s.to, err = o.open(path); err != nil {
			return nil, err
		}
		if other, err := o.expand(where.pattern, int(f.task)+1, node, o.nodeOf(f.task)); err == nil && other != path {
			s.whole = false // the task has the file for itself
			o.sinks[f] = s
			return s, nil
		}
	}
	if o.label {
		width := len(strconv.Itoa(max(tasks-1, 0)))
		s.label, s.whole = fmt.Sprintf("%*d: ", width, f.task), true
	}
	o.sinks[f] = s
	return s, nil
}

// open opens each file once.
func (o *stepOutput) open(path string) (io.Writer, error) {
	if f := o.files[path]; f != nil {
		return f, nil
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	mode := o.line.values["open-mode"]
	// If the job was requeued, earlier output in the file is kept, as in the job's own output file.
	again := o.tool.Getenv("SLURM_RESTART_COUNT")
	if strings.HasPrefix(mode, "t") || mode == "" && (again == "" || again == "0") {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, cannotOpen(err)
	}
	o.files[path] = f
	return f, nil
}

// expand replaces the letters of a pattern: those of batch scripts, and %t, %n and %N for the task.
func (o *stepOutput) expand(pattern string, task, node int, name string) (string, error) {
	if plain, found := strings.CutPrefix(pattern, `\`); found {
		return o.absolute(strings.ReplaceAll(plain, `\`, "")), nil
	}
	env := o.tool.Getenv
	host, _, _ := strings.Cut(name, ".")
	job, step := strconv.FormatInt(int64(o.begun.Job), 10), strconv.Itoa(o.begun.Step)
	path, err := logpath.Expand(pattern, map[byte]string{'j': job, 'J': job + "." + step, 's': step,
		't': strconv.Itoa(task), 'n': strconv.Itoa(node), 'N': host, 'x': env("SLURM_JOB_NAME"), 'u': env("USER"),
		'A': cmp.Or(env("SLURM_ARRAY_JOB_ID"), job),
		'a': cmp.Or(env("SLURM_ARRAY_TASK_ID"), "4294967294")}) // Slurm's value for a job without an array
	return o.absolute(path), err
}

func (o *stepOutput) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(o.dir, path)
}

// write takes a piece of a task's output.
func (o *stepOutput) write(f from, data []byte) error {
	s, err := o.sinkOf(f)
	if err != nil {
		return err
	}
	return s.write(data)
}

// mostLine bounds the kept part of an unfinished line.
const mostLine = 1 << 20

func (s *sink) write(data []byte) error {
	if !s.whole {
		return s.of.writeTo(s.to, data)
	}
	s.part = append(s.part, data...)
	end := bytes.LastIndexByte(s.part, '\n') + 1
	if end == 0 && len(s.part) < mostLine {
		return nil
	}
	if end == 0 {
		return s.flush()
	}
	err := s.put(s.part[:end])
	s.part = append(s.part[:0], s.part[end:]...)
	return err
}

// put writes whole lines in one call, each after its label.
func (s *sink) put(lines []byte) error {
	if s.label != "" {
		var b bytes.Buffer
		for line := range bytes.SplitAfterSeq(lines, []byte("\n")) {
			if len(line) > 0 {
				b.WriteString(s.label)
				b.Write(line)
			}
		}
		lines = b.Bytes()
	}
	return s.of.writeTo(s.to, lines)
}

// writeTo writes to a file or to srun's own stream. Output that a full disk does not take is
// counted, and the step goes on. A pipe that nothing reads is an error.
func (o *stepOutput) writeTo(to io.Writer, data []byte) error {
	w := o.writers[to]
	if w == nil {
		w = &lossy.Writer{To: to}
		o.writers[to] = w
	}
	_, lost, err := w.Write(data)
	if errors.Is(err, syscall.EPIPE) {
		return err
	}
	o.lost.Add(lost)
	return nil
}

// flush writes the rest of an unfinished line. If lines have labels, flush ends the line, so that
// the next label starts a new one.
func (s *sink) flush() error {
	if len(s.part) == 0 {
		return nil
	}
	if s.label != "" {
		s.part = append(s.part, '\n')
	}
	err := s.put(s.part)
	s.part = s.part[:0]
	return err
}

// flushTask flushes the streams of an ended task.
func (o *stepOutput) flushTask(task uint32) error {
	var errs []error
	for _, stderr := range []bool{false, true} {
		if s := o.sinks[from{task, stderr}]; s != nil {
			errs = append(errs, s.flush())
		}
	}
	return errors.Join(errs...)
}

// close flushes all streams and closes the files.
func (o *stepOutput) close() error {
	var errs []error
	for task := range o.nodes {
		errs = append(errs, o.flushTask(uint32(task)))
	}
	for _, w := range o.writers {
		_, _ = w.End() // without room the count alone tells of the loss
	}
	for _, f := range o.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
