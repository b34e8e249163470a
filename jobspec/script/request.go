package script

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// request holds the values of all flags.
type request struct {
	*report
	opts    *Options
	result  *Result
	job     *jobspec.Job
	applied map[string]setting // flags by name
	more    []*request         // components of the job after the first

	name, stdout, stderr, mode    string
	exports                       []string
	env                           map[string]string
	imageDir                      string
	mounted                       []jobspec.Mount
	noRequeue, wholeNodes, listed setting
	allMemory                     setting // --mem=0
	early                         slurm.EarlySignal
	earlyFlag, wantedBy           setting
	wanted                        slurm.Wanted
	mailTold                      bool // the warning that no mail is sent was given
	goOn                          bool // tasks continue if one of them fails
	distribution                  string
	seeAll                        bool // every task sees all GPUs of its worker

	nodeCount, ntasks, perNode, perGPU      counted
	cpus, cpusPerGPU, minCPUs               counted
	gpus, gpusPerNode, gpusPerTask, gpuGres counted
	mem, memPerCPU, memPerGPU               counted // in bytes
}

// counted is an amount and the flag that set it; n is 0 if no flag did.
type counted struct {
	n     int
	by    setting
	model string // model of the GPUs; "": any
}

func (a *request) badValue(s setting, hint, format string, args ...any) {
	a.addFlag(Mistake, CodeValue, s, hint, format, args...)
}

func (a *request) conflict(s setting, hint, format string, args ...any) {
	a.addFlag(Mistake, CodeConflict, s, hint, format, args...)
}

func (a *request) refuseFlag(s setting, hint, format string, args ...any) {
	a.addFlag(Refused, CodeNotHere, s, hint, format, args...)
}

func (a *request) warnChanged(s setting, format string, args ...any) {
	a.addFlag(Warning, CodeChanged, s, "", format, args...)
}

// textFlag returns a function that stores a flag's value unchanged.
func textFlag(field func(a *request) *string) func(*request, setting) {
	return func(a *request, s setting) {
		if s.value == "" {
			a.addFlag(Mistake, CodeNoValue, s, s.spec.example(), "needs a value")
			return
		}
		*field(a) = s.value
	}
}

func (a *request) partition(s setting) {
	if strings.Contains(s.value, ",") {
		a.refuseFlag(s, "name one queue", "%q: a job is submitted to one queue", s.value)
		s.value, _, _ = strings.Cut(s.value, ",")
	}
	textFlag(func(a *request) *string { return &a.job.Queue })(a, s)
}

// normalQOS is the class of service that Slurm gives to jobs without one.
const normalQOS = "normal"

func (a *request) qos(s setting) {
	switch class := jobspec.Class(strings.ToLower(s.value)); {
	case class == jobspec.TE || class == jobspec.BE:
		a.job.Class = class
	case class == normalQOS && s.given != "--class":
		a.job.Class = jobspec.BE // normal means best effort, even in a queue that makes jobs trial and error by default
	case s.given == "--class":
		a.badValue(s, "write te (trial and error) or be (best effort)", "%q is not a class", s.value)
	default:
		a.addFlag(Warning, CodeIgnored, s, "the job gets the class of its queue; ordinary jobs have class be",
			"is ignored: unknown class %q", s.value)
	}
}

func (a *request) priority(s setting) {
	n, err := strconv.Atoi(s.value)
	if err != nil || n < 0 || n > 100 {
		a.badValue(s, "without it, a job has priority 50", "%q is not a number from 0 to 100", s.value)
		return
	}
	a.job.Priority = &n
}

// nice lowers the priority, to 0 at the lowest. Only --priority raises it.
func (a *request) nice(s setting) {
	n := jobspec.DefaultPriority
	if s.has {
		var err error
		if n, err = strconv.Atoi(s.value); err != nil {
			a.badValue(s, "write --nice=10", "%q is not a number", s.value)
			return
		}
	}
	if by, given := a.applied["priority"]; given && by.layer >= s.layer {
		return // --priority is set and says more
	}
	if n < 0 {
		a.addFlag(Warning, CodeIgnored, s, "use --priority=60", "is ignored: it can only lower the priority")
		return
	}
	priority := max(0, jobspec.DefaultPriority-n)
	a.job.Priority = &priority
}

// keep stores a flag's value in the job's meta.
func (a *request) keep(s setting) {
	if s.value == "" {
		a.addFlag(Mistake, CodeNoValue, s, s.spec.example(), "needs a value")
		return
	}
	a.keepAs(s.spec.Name, s.value)
}

// keepAs stores a value in the job's meta under a name.
func (a *request) keepAs(name, value string) {
	meta := maps.Clone(a.job.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[name] = value
	a.job.Meta = meta
}

func (a *request) wckey(s setting) { a.keep(s) }

// mailTypes are Slurm's values of --mail-type.
var mailTypes = strings.Split("NONE BEGIN END FAIL REQUEUE ALL INVALID_DEPEND STAGE_OUT TIME_LIMIT TIME_LIMIT_90 "+
	"TIME_LIMIT_80 TIME_LIMIT_50 ARRAY_TASKS", " ")

// mail stores the requested mails, and warns one time that Rota sends none.
func (a *request) mail(s setting) {
	if s.spec.Name == "mail-type" && s.value != "" {
		for one := range strings.SplitSeq(s.value, ",") {
			if !slices.Contains(mailTypes, strings.ToUpper(one)) {
				a.badValue(s, "write "+strings.Join(mailTypes, ", "), "%q is not a known mail type", one)
				return
			}
		}
	}
	if a.keep(s); s.value != "" && !a.mailTold && !strings.EqualFold(s.value, "none") {
		a.mailTold = true
		a.addFlag(Warning, CodeIgnored, s, "rota wait ID && mail ..., or rota events -f",
			"is stored, but no mail is sent yet")
	}
}

func (a *request) time(s setting) {
	limit, unlimited, ok := slurm.TimeLimit(s.value)
	switch {
	case !ok:
		a.badValue(s, "write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS; 30m and 2d12h are understood too",
			"%q is not a time", s.value)
	case limit > jobspec.MaxDuration:
		a.badValue(s, "", "%q is longer than %v", s.value, jobspec.MaxDuration)
	case unlimited:
		a.job.TimeLimit = jobspec.MaxDuration // a queue with a maximum refuses it
	default:
		a.job.TimeLimit = limit
	}
}

func (a *request) array(s setting) {
	array, err := jobspec.ParseSlurmArray(s.value)
	if err != nil {
		hint := "write numbers and ranges, and %N for N at once: 0-99:2%8"
		if bad, ok := err.(*jobspec.IndicesError); ok { //nolint:errorlint // ParseSlurmArray returns no other type of error
			hint = strings.ReplaceAll(bad.Hint, "max_parallel = ...", "%N at the end")
		}
		a.badValue(s, hint, "%q: %v", cutShort(s.value), err)
		return
	}
	a.job.Array = array
}

func cutShort(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}

func (a *request) chdir(s setting) {
	switch {
	case s.value == "":
		a.addFlag(Mistake, CodeNoValue, s, s.spec.example(), "needs a value")
	case path.IsAbs(s.value):
		a.job.Workdir = path.Clean(s.value)
	case a.opts.Dir == "":
		a.badValue(s, "start it with /", "%q is not an absolute path", s.value)
	default:
		a.job.Workdir = path.Join(a.opts.Dir, s.value)
	}
}

func (a *request) input(s setting) {
	if s.value != "/dev/null" {
		a.refuseFlag(s, "write < FILE after the command that reads it", "%q: the standard input of a script is /dev/null",
			s.value)
	}
}

func (a *request) openMode(s setting) {
	switch s.value {
	case "append", "a":
		a.mode = "append"
	case "truncate", "t":
		a.mode = "truncate"
	default:
		a.badValue(s, "write append or truncate", "%q is not a mode", s.value)
	}
}

// export parses ALL, NONE, names of variables, and names with values.
func (a *request) export(s setting) {
	a.exports, a.env = []string{}, map[string]string{}
	for item := range splitQuoted(s.value) {
		name, value, has := strings.Cut(item, "=")
		switch {
		case strings.EqualFold(item, "ALL"):
			if !slices.Contains(a.exports, "*") {
				a.exports = append([]string{"*"}, a.exports...)
			}
		case strings.EqualFold(item, "NONE") || strings.EqualFold(item, "NIL"):
			if s.value != item {
				a.badValue(s, "write either NONE or the names", "%q: %s must stand alone", s.value, item)
			}
		case item == "":
		case has:
			a.env[name] = value
		case len(a.exports) <= jobspec.MaxExport && !slices.Contains(a.exports, name):
			a.exports = append(a.exports, name)
		}
	}
}

// splitQuoted splits a list at its commas. As in Slurm, an item between single quotes keeps its commas
// and loses the quotes.
func splitQuoted(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for rest := list; rest != ""; {
			item, next, _ := strings.Cut(rest, ",")
			if end := strings.Index(rest[1:], "'"); rest[0] == '\'' && end >= 0 {
				item = rest[1 : end+1]
				_, next, _ = strings.Cut(rest[end+2:], ",")
			}
			if !yield(item) {
				return
			}
			rest = next
		}
	}
}

// constraint parses the required features of nodes.
func (a *request) constraint(s setting) {
	wanted, err := slurm.Features(s.value)
	if a.job.Features = nil; a.accept(s, err) {
		a.job.Features, a.wanted, a.wantedBy = wanted.Features, wanted, s
	}
}

// checkWanted refuses feature counts, and lists of which all nodes must share one feature.
func (a *request) checkWanted(nodes int) {
	for _, n := range a.wanted.Counts {
		if n != nodes {
			a.refuseFlag(a.wantedBy, "submit a job for each kind of nodes, or write a job file with a group for each",
				"%q: features for only %d of the job's %d nodes are not supported", cutShort(a.wantedBy.value), n, nodes)
			return
		}
	}
	if a.wanted.Same && nodes > 1 {
		a.refuseFlag(a.wantedBy, "write one feature, or leave the brackets out if nodes with different features will do",
			"%q: the same feature on all nodes, chosen by the scheduler, is not supported", cutShort(a.wantedBy.value))
	}
}

// licenses parses a list of NAME[:COUNT] or NAME=COUNT.
func (a *request) licenses(s setting) {
	if strings.ContainsAny(s.value, "|@") {
		a.refuseFlag(s, "write name:count with commas between them",
			"%q: a choice of licences, and licences of a server, are not supported", cutShort(s.value))
		return
	}
	list := map[string]int{}
	for item := range strings.SplitSeq(s.value, ",") {
		name, count, given := strings.Cut(strings.Replace(item, "=", ":", 1), ":")
		n := 1
		if given {
			var ok bool
			if n, ok = a.number(s, count); !ok {
				return
			}
		}
		if name == "" {
			a.badValue(s, "write matlab:2", "%q: a name is missing", cutShort(s.value))
			return
		}
		if len(list) <= jobspec.MaxLicenses {
			list[name] += n
		}
	}
	a.job.Licenses = list
}

func (a *request) nodelist(s setting) {
	if _, ok := a.hosts(s); ok {
		a.job.Nodes, a.listed = []string{s.value}, s
	}
}

func (a *request) exclude(s setting) {
	if _, ok := a.hosts(s); ok {
		a.job.ExcludeNodes = []string{s.value}
	}
}

func (a *request) hosts(s setting) ([]string, bool) {
	if strings.Contains(s.value, "/") {
		a.refuseFlag(s, "name the nodes: gpu[01-04,07]", "%q: files with node names are not supported", s.value)
		return nil, false
	}
	names, err := jobspec.ExpandNodes([]string{s.value})
	if err != nil {
		a.badValue(s, "write names and ranges such as gpu[01-04,07]", "%q: %v", cutShort(s.value), err)
	}
	return names, err == nil
}

func (a *request) exclusive(s setting) {
	switch s.value {
	case "":
		a.wholeNodes = s
	case "user", "mcs", "topo":
		a.refuseFlag(s, "write --exclusive for whole nodes", "=%s: only whole nodes are supported", s.value)
	default:
		a.badValue(s, "write --exclusive", "%q is not known", s.value)
	}
}

func (a *request) gpuBind(s setting) {
	if a.seeAll = s.value == "none"; !a.seeAll {
		a.addFlag(Warning, CodeIgnored, s, "use --gpus-per-task to let each task see its own GPUs",
			"is ignored: tasks see their own GPUs with --gpus-per-task, otherwise all GPUs of their worker")
	}
}

func (a *request) killOnBadExit(s setting) {
	switch s.value {
	case "", "1":
		a.goOn = false
	case "0":
		a.goOn = true
	default:
		a.badValue(s, "write 0 or 1", "%q is neither 0 nor 1", s.value)
	}
}

func (a *request) wrap(s setting) {
	if s.line > 0 {
		a.conflict(s, "write the command into the script",
			"belongs on the command line, where it replaces a script")
	}
}

// accept reports whether a value was parsed without error. Otherwise it adds the reason as a
// problem.
func (a *request) accept(s setting, err *slurm.Error) bool {
	switch {
	case err == nil:
		return true
	case err.Unsupported:
		a.refuseFlag(s, err.Hint, "%s", err.Text)
	default:
		a.badValue(s, err.Hint, "%s", err.Text)
	}
	return false
}

func (a *request) signal(s setting) {
	early, err := slurm.Signal(s.value)
	if a.early = (slurm.EarlySignal{}); !a.accept(s, err) {
		return
	}
	if a.early, a.earlyFlag = early, s; early.Reservation {
		a.addFlag(Warning, CodeIgnored, s, "", "%q: R is ignored: Rota has no reservations that a job could overlap",
			cutShort(s.value))
	}
}

func (a *request) dependency(s setting) {
	list, err := slurm.Dependencies(s.value)
	if a.job.Dependencies = nil; a.accept(s, err) {
		a.job.Dependencies = list
	}
}

func (a *request) invalidDependency(s setting) {
	switch strings.ToLower(s.value) {
	case "yes", "true", "1":
		a.job.OnDependencyFailure = "cancel"
	case "no", "false", "0":
		a.job.OnDependencyFailure = "hold"
	default:
		a.badValue(s, "write yes or no", "%q is neither yes nor no", s.value)
	}
}

// image parses the directory of a root file system.
func (a *request) image(s setting) {
	switch ext := path.Ext(s.value); {
	case !path.IsAbs(s.value):
		a.refuseFlag(s, "unpack the image and give the absolute path of its root file system",
			"%q: images are not pulled from registries", s.value)
	case slices.Contains([]string{".sqsh", ".squashfs", ".sif", ".simg", ".tar"}, ext):
		a.refuseFlag(s, "unpack the image and give the directory: unsquashfs -d DIR FILE", "%q: image files are not mounted",
			s.value)
	default:
		a.imageDir = s.value
	}
}

func (a *request) mounts(s setting) {
	if list, err := slurm.Mounts(s.value); a.accept(s, err) {
		a.mounted = list
	}
}
