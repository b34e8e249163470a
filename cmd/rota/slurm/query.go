package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"
	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// release is the version of Slurm whose command lines and JSON these are. Clients read it.
const release = "24.11.0"

// source is what the rows of a command have in common.
type source struct {
	cluster string
	past    bool   // it is sacct: ended jobs too
	never   string // what is written for a time that has not come
	exact   bool   // sizes stay in the unit in which Slurm keeps them
	unit    string // K, M, G, T or P: sizes are in it; "": in the largest that leaves a whole number
	format  string // of times, as for strftime; "": as Slurm writes them
	now     time.Time
	groups  map[uint32]string // names by their numbers
}

// newSource returns a source for a command.
func (t *tool) newSource() (*source, error) {
	s := &source{now: t.Now(), never: "N/A", groups: map[uint32]string{}}
	switch format := t.Getenv("SLURM_TIME_FORMAT"); format {
	case "", "standard":
	case "relative":
		return nil,
			errors.New("SLURM_TIME_FORMAT=relative is not supported: standard, or a format of strftime such as %s, is")
	default:
		s.format = format
	}
	return s, nil
}

// when writes a time as Slurm does.
func (s *source) when(t *api.Time) string {
	switch {
	case t == nil || t.IsZero():
		return s.never
	case s.format != "":
		return strftime.Format(s.format, t.Local())
	}
	return show.Time(t, false)
}

// stamp is a time in JSON: seconds since 1970, 0 for none.
func (s *source) stamp(t *api.Time) any {
	var at int64
	if t != nil && !t.IsZero() {
		at = t.Unix()
	}
	if s.past {
		return at
	}
	return number{Set: true, Number: at}
}

// groupName returns the name of a Unix group, its number if this machine does not know it.
func (s *source) groupName(gid uint32) string {
	name, known := s.groups[gid]
	if !known {
		name = strconv.Itoa(int(gid))
		if g, err := user.LookupGroupId(name); err == nil {
			name = g.Name
		}
		s.groups[gid] = name
	}
	return name
}

// size writes a size in the unit that was asked for.
func (s *source) size(b jobspec.Bytes) string {
	switch {
	case s.unit != "":
		return inUnit(b, s.unit)
	case s.exact:
		return fmt.Sprintf("%dM", b/jobspec.MiB)
	}
	return memory(b)
}

// peak writes what memory was used, which sacct counts in KiB.
func (s *source) peak(b jobspec.Bytes) string {
	if s.unit != "" {
		return inUnit(b, s.unit)
	}
	if n := b / jobspec.KiB; s.exact || n%1024 != 0 {
		return fmt.Sprintf("%dK", n)
	}
	return memory(b)
}

// peakOrNone is peak, and "" of what is not known.
func (s *source) peakOrNone(b jobspec.Bytes) string {
	if b == 0 {
		return ""
	}
	return s.peak(b)
}

// units are the letters of sizes, by powers of 1024.
const units = "KMGTP"

// inUnit writes a size in a unit, with two decimals if it is no whole number of it.
func inUnit(b jobspec.Bytes, unit string) string {
	one := jobspec.Bytes(1) << (10 * (strings.Index(units, unit) + 1))
	if b%one == 0 {
		return fmt.Sprintf("%d%s", b/one, unit)
	}
	return fmt.Sprintf("%.2f%s", float64(b)/float64(one), unit)
}

// common are options that all commands that show something have.
type common struct {
	noHeader, asJSON, exact bool
	clusters                string
}

// add defines the options. The letter of --noheader differs.
func (c *common) add(f *pflag.FlagSet, noHeader string) {
	f.BoolVarP(&c.noHeader, "noheader", noHeader, false, "")
	f.BoolVar(&c.asJSON, "json", false, "")
	f.BoolVar(&c.exact, "noconvert", false, "")
	f.StringVarP(&c.clusters, "clusters", "M", "", "")
	f.StringVar(&c.clusters, "cluster", "", "")
}

// begin reads a command line that has no arguments beside its options. done: there is nothing more
// to do.
func (t *tool) begin(f *pflag.FlagSet, c *common, args []string, defaults map[string]string) (done bool, err error) {
	rest, err := t.parse(f, args)
	switch {
	case errors.Is(err, errHelp):
		return true, nil
	case err != nil:
		return false, err
	case len(rest) > 0:
		return false, fmt.Errorf("Unrecognized option: %s", rest[0]) //nolint:misspell // Slurm's word
	}
	if f.Changed("format") || f.Changed("Format") { // one on the command line outweighs both variables
		defaults = maps.Clone(defaults)
		delete(defaults, "format")
		delete(defaults, "Format")
	}
	for name, variable := range defaults {
		if value := t.Getenv(variable); value != "" && !given(f, name) {
			if err := setFrom(f, name, variable, value); err != nil {
				return false, err
			}
		}
	}
	f.Visit(func(flag *pflag.Flag) {
		if empty := strings.Trim(flag.Value.String(), " ,"); empty == "" && err == nil && flag.Name != "delimiter" {
			err = fmt.Errorf("--%s is empty", flag.Name)
		}
	})
	return false, err
}

// given reports whether a flag is set, by any of its names.
func given(f *pflag.FlagSet, name string) (is bool) {
	value := f.Lookup(name).Value
	f.Visit(func(flag *pflag.Flag) { is = is || flag.Value == value })
	return is
}

// setFrom sets a flag to the value of a variable.
func setFrom(f *pflag.FlagSet, name, variable, value string) error {
	if f.Lookup(name).Value.Type() == "bool" {
		on, err := readSwitch(variable, value)
		if err != nil {
			return err
		}
		value = strconv.FormatBool(on)
	}
	if err := f.Set(name, value); err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	return nil
}

// readSwitch reads a variable that stands for a flag without a value.
func readSwitch(variable, value string) (on bool, err error) {
	switch strings.ToLower(value) {
	case "1", "yes", "true":
		return true, nil
	case "0", "no", "false":
		return false, nil
	}
	//nolint:misspell // Slurm's word
	return false, fmt.Errorf("Unrecognized %s value: %s: write yes or no", variable, value)
}

// aliased gives an option another name.
func aliased(f *pflag.FlagSet, name string, others ...string) {
	for _, other := range others {
		f.Var(f.Lookup(name).Value, other, "")
	}
}

// setCluster notes the name of the cluster, and refuses others.
func (t *tool) setCluster(ctx context.Context, s *command.Session, src *source, wanted string, needed bool) error {
	if wanted == "" && !needed {
		return nil
	}
	name, err := s.InCluster(ctx, cmp.Or(wanted, "all"))
	var other *exit.UsageError
	if err != nil && !errors.As(err, &other) {
		return &loadError{"slurm_load_jobs", show.Clean(asSlurm(err).Error())}
	}
	src.cluster = name
	return err
}

// slurmStates are the states of jobs in Slurm, by their letters. Jobs of Rota are in some of them.
var slurmStates = map[model.JobState]string{
	model.Pending: "PENDING", model.Configuring: "CONFIGURING", model.Running: "RUNNING", model.Suspended: "SUSPENDED",
	model.Completing: "COMPLETING", model.Completed: "COMPLETED", model.Failed: "FAILED", model.TimedOut: "TIMEOUT",
	model.OutOfMemory: "OUT_OF_MEMORY", model.Cancelled: "CANCELLED", model.NodeFailed: "NODE_FAIL",
	model.BootFailed: "BOOT_FAIL", model.PastDue: "DEADLINE", model.Preempted: "PREEMPTED",
	"LF": "LAUNCH_FAILED", "PO": "POWER_UP_NODE", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
	"RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "SE": "SPECIAL_EXIT",
	"SI": "SIGNALING", //nolint:misspell // Slurm's word
	"SO": "STAGE_OUT",
	"ST": "STOPPED", "UF": "UPDATE_DB", "EX": "EXPEDITING",
}

// readStates reads states by letters or long names. all: every state is asked for.
func readStates(text string) (states []model.JobState, all bool, err error) {
next:
	for _, word := range command.SplitList(text) {
		if strings.EqualFold(word, "all") {
			all = true
			continue
		}
		for code, name := range slurmStates {
			if strings.EqualFold(word, string(code)) || strings.EqualFold(word, name) {
				states = append(states, code)
				continue next
			}
		}
		return nil, false, fmt.Errorf("Invalid job state specified: %s: valid job states are %s", word, knownStates())
	}
	return states, all, nil
}

func knownStates() string {
	var names []string
	for _, name := range slurmStates {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// selection says which jobs a command is about. An empty list selects all.
type selection struct {
	users, accounts, names, queues, classes, nodes []string
	states                                         []model.JobState
	refs                                           []string
	tasks                                          map[model.JobID]map[int]bool // of arrays of which only these are named
}

// addRefs reads the names of jobs. Tasks of arrays are chosen from all of them, because those that
// wait are in one row.
func (s *selection) addRefs(refs []string) error {
	if s.tasks == nil {
		s.tasks = map[model.JobID]map[int]bool{}
	}
	for _, ref := range refs {
		array, indices, isTask := strings.Cut(ref, "_")
		id, err := strconv.ParseInt(array, 10, 64)
		if !isTask || err != nil {
			s.refs = append(s.refs, ref)
			continue
		}
		some := s.tasks[model.JobID(id)]
		if some == nil {
			if slices.Contains(s.refs, array) {
				continue // the whole array is named as well
			}
			some = map[int]bool{}
			s.tasks[model.JobID(id)] = some
			s.refs = append(s.refs, array)
		}
		indices, _, _ = strings.Cut(strings.Trim(indices, "[]"), "%")
		for part := range strings.SplitSeq(indices, ",") {
			runs, err := jobspec.ParseIndices(part)
			if err != nil {
				return fmt.Errorf("Invalid job id: %s", ref)
			}
			for n := runs[0].First; n <= runs[0].Last; n += runs[0].Step {
				some[n] = true
			}
		}
	}
	for _, ref := range refs {
		if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
			delete(s.tasks, model.JobID(id))
		}
	}
	return nil
}

// named returns the rows of those that are named, and of the tasks in a row those that are.
func (s *selection) named(rows []*jobRow) []*jobRow {
	if len(s.tasks) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(r *jobRow) bool {
		if some := s.tasks[r.Array.Job]; some != nil && r.Array.Index != nil {
			return !some[*r.Array.Index]
		}
		some := s.tasks[r.ID]
		if some == nil || r.Array.Indices == "" {
			return false
		}
		indices, most, _ := strings.Cut(r.Array.Indices, "%")
		runs, err := jobspec.ParseIndices(indices)
		var kept []int
		for _, run := range runs {
			for n := run.First; n <= run.Last; n += run.Step {
				if some[n] {
					kept = append(kept, n)
				}
			}
		}
		switch {
		case err != nil || len(kept) == 0:
			return true
		case len(kept) == 1:
			r.Array = api.ArrayPlace{Job: r.ID, Index: &kept[0]}
			return false
		}
		if r.Array.Indices = jobspec.MakeIndices(kept).String(); most != "" {
			r.Array.Indices += "%" + most
		}
		return false
	})
}

// useAliases has the queues that are named by an alias be those that it stands for.
func (s *selection) useAliases(ctx context.Context, session *command.Session) error {
	if len(s.queues) == 0 {
		return nil
	}
	config, _, err := session.Config(ctx, api.Read{})
	if err != nil {
		return &loadError{"slurm_load_partitions", show.Clean(asSlurm(err).Error())}
	}
	for i, name := range s.queues {
		s.queues[i] = config.QueueName(name)
	}
	return nil
}

// narrow has the controllers leave out what one name of each kind leaves out.
func (s *selection) narrow(f *api.JobFilter) {
	one := func(into *string, list []string) {
		if len(list) == 1 {
			*into = list[0]
		}
	}
	if len(s.users) == 1 && !isNumber(s.users[0]) {
		f.User = s.users[0]
	}
	one(&f.Account, s.accounts)
	one(&f.Name, s.names)
	one(&f.Queue, s.queues)
	f.Refs = s.refs
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

// needs are the members of the API's JSON that selects reads.
func (s *selection) needs() []string {
	return []string{"user", "uid", "account", "name", "queue", "class", "nodes", "code", "state", "array", "groups",
		"ended"}
}

// selects reports whether a row is one of those that are asked for.
func (s *selection) selects(r *jobRow) bool {
	in := func(list []string, values ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(list, v) })
	}
	return in(s.users, r.User, strconv.Itoa(int(r.UID))) && in(s.accounts, r.Account) && in(s.names, r.Name) &&
		in(s.queues, r.Queue) && in(s.classes, string(r.Class)) && in(s.nodes, r.Nodes...) &&
		(len(s.states) == 0 || slices.Contains(s.states, r.Code))
}

// eachJob visits the jobs of a filter.
func eachJob(ctx context.Context, s *command.Session, f api.JobFilter, visit func(*api.Job) error) error {
	return eachRef(f.Refs, func(refs []string) error {
		f.Refs = refs
		_, err := s.EachJob(ctx, f, api.Read{}, visit)
		return err
	})
}

// eachRef asks for jobs that are named. One of several that there is not is passed over, as in Slurm.
func eachRef(refs []string, ask func(refs []string) error) error {
	err := ask(refs)
	if !exit.IsNotFound(err) || len(refs) < 2 {
		return err
	}
	for i := range refs {
		if err := ask(refs[i : i+1]); err != nil && !exit.IsNotFound(err) {
			return err
		}
	}
	return nil
}
