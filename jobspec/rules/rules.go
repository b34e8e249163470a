// Package rules has the rules that every job must satisfy, in whatever way it is submitted.
// [Validate] checks the job alone, [ValidateAt] its times at submission, and [ValidateScheduling]
// the fields that the state machine relies on. [Warnings] finds settings that are allowed but
// probably mistakes. controld decides whether the cluster has capacity, queue and account for the
// job.
package rules

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Validate returns all violations, in the order of the job's fields. It checks the job alone:
// queue, account and capacity are checked by the cluster. [jobspec.Job.Default] never changes
// whether a job is valid.
func Validate(j *jobspec.Job) []jobspec.Problem { return validate(j, false) }

// ValidateScheduling is [Validate] for the fields that decide when and where a job runs. The state
// machine checks every submitted job with it, including simulated jobs. Simulated jobs have no
// program, may share a GPU, and are limited by nodes only. All replicas must decide alike, so a
// change of these rules is a change of the state machine.
func ValidateScheduling(j *jobspec.Job) []jobspec.Problem { return validate(j, true) }

func validate(j *jobspec.Job, scheduling bool) []jobspec.Problem {
	quick := &checker{unplaced: true, scheduling: scheduling}
	if quick.job(j); len(quick.problems) == 0 {
		return nil
	}
	c := &checker{scheduling: scheduling}
	c.job(j)
	return c.problems
}

// checker collects problems.
type checker struct {
	problems []jobspec.Problem
	// scheduling skips the rules about names, programs and files: see [ValidateScheduling].
	scheduling bool
	// unplaced omits groups, tasks and words from paths. Most jobs are valid, and formatting paths
	// takes longer than the checks.
	unplaced bool
}

// partPath returns the path of a part that contains parts.
func (c *checker) partPath(path, name string) string {
	if c.unplaced {
		return ""
	}
	return path + name
}

// elementPath returns the path of an element.
func (c *checker) elementPath(path string, i int) string {
	if c.unplaced {
		return ""
	}
	return at(path, i)
}

func (c *checker) add(code, path, hint, format string, args ...any) {
	c.problems = append(c.problems,
		jobspec.Problem{Code: code, Path: path, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (c *checker) job(j *jobspec.Job) {
	c.name("name", j.Name)
	c.choice("class", string(j.Class), string(jobspec.TE), string(jobspec.BE))
	c.nameIfSet("queue", j.Queue)
	c.nameIfSet("account", j.Account)
	if j.Priority != nil {
		c.between("priority", *j.Priority, 0, jobspec.MaxPriority)
	}
	c.duration("time_limit", j.TimeLimit)
	c.licenses(j.Licenses)
	if !c.scheduling {
		c.jobTexts(j)
	}
	c.beginAndDeadline(j)
	c.choice("gang_scope", j.GangScope, jobspec.ScopeGroup, jobspec.ScopeJob)
	c.choice("on_dependency_failure", j.OnDependencyFailure, "cancel", "hold")
	c.dependencies(j)
	c.array(j.Array)
	if !c.scheduling {
		c.logPolicies(j.LogPolicies)
	}
	c.constraints("constraints", j.Constraints)
	c.affinities("affinities", j.Affinities)
	c.nodeNames(j)
	c.restart("restart", j.Restart)
	c.checkpoint(j)
	c.preemption(j)
	c.groups(j)
	c.stopMetrics(j)
	c.atMost("", j.TextBytes(), jobspec.MaxTextBytes, "bytes of text")
}

// jobTexts checks the descriptive fields of a job, such as comment and submit host.
func (c *checker) jobTexts(j *jobspec.Job) {
	c.freeText("description", j.Description, jobspec.MaxDescription)
	c.freeText("comment", j.Comment, jobspec.MaxComment)
	c.atMost("tags", len(j.Tags), jobspec.MaxTags, "tags")
	for i, tag := range j.Tags {
		c.name(at("tags", i), tag)
	}
	c.meta("meta", j.Meta)
	c.export(j.Export)
	c.env("export_env", j.ExportEnv, jobspec.ValidExport)
	c.absolute("workdir", j.Workdir)
	c.absolute("submit_dir", j.SubmitDir)
}

func (c *checker) restart(where string, r *jobspec.Restart) {
	if r == nil {
		return
	}
	c.between(where+".attempts", r.Attempts, 0, jobspec.MaxAttempts)
	c.duration(where+".delay", r.Delay)
	c.choice(where+".backoff", r.Backoff, "exponential", "constant")
	c.duration(where+".max_delay", r.MaxDelay)
	c.duration(where+".window", r.Window)
	if r.MaxDelay != 0 && r.MaxDelay < r.Delay {
		c.add(jobspec.CodeConflict, where+".max_delay", "make max_delay at least delay",
			"max_delay (%v) is shorter than delay (%v)", r.MaxDelay, r.Delay)
	}
	c.exitCodes(where+".retry_on_exit", r.RetryOnExit)
	c.exitCodes(where+".no_retry_on_exit", r.NoRetryOnExit)
	for i, code := range r.NoRetryOnExit {
		for _, other := range r.RetryOnExit {
			if code == other {
				c.add(jobspec.CodeConflict, at(where+".no_retry_on_exit", i), "remove it from one of the two lists",
					"exit code %d is in retry_on_exit as well", code)
			}
		}
	}
}

func (c *checker) exitCodes(path string, codes []int) {
	c.atMost(path, len(codes), 255, "exit codes")
	for i, code := range codes {
		c.between(at(path, i), code, 1, 255)
	}
}

func (c *checker) checkpoint(j *jobspec.Job) {
	if j.RequeueExit != 0 {
		c.between("requeue_exit_code", int(j.RequeueExit), 1, 127)
		if j.Checkpoint != nil {
			c.add(jobspec.CodeConflict, "requeue_exit_code", "write checkpoint { exit_code = ... } instead",
				"a job with a checkpoint block sets this exit code in that block")
		}
		if j.RunsOnce() {
			c.add(jobspec.CodeConflict, "requeue_exit_code", "leave out requeue_exit_code or requeue = false",
				"requeue_exit_code asks for a new start, but this job must never be started again")
		}
	}
	k := j.Checkpoint
	if k == nil {
		return
	}
	c.plainText("checkpoint.path", k.Path)
	c.duration("checkpoint.interval", k.Interval)
	if k.ExitCode != 0 {
		c.between("checkpoint.exit_code", k.ExitCode, 1, 127)
	}
	single := len(j.Groups) == 1 && j.Groups[0].Count <= 1 && j.Groups[0].Elastic == nil && len(j.Groups[0].Tasks) == 1
	if k.Criu && !single {
		c.add(jobspec.CodeUnsupported, "checkpoint.criu", "let the program save its own state, or ask for one worker",
			"CRIU saves jobs of one worker with one task that are not elastic: it cannot save messages between containers "+
				"or nodes")
	}
	if k.NodeLocal {
		c.nodeLocal(j)
	}
	c.beforeLimit(j)
}

// beforeLimit refuses a signal that would come before the attempt starts. The queue's time limit is
// known to the controllers only.
func (c *checker) beforeLimit(j *jobspec.Job) {
	ahead := j.Checkpoint.BeforeLimit
	c.duration("checkpoint.before_limit", ahead)
	limits := []jobspec.Seconds{j.TimeLimit}
	for i := range j.Groups {
		limits = append(limits, j.Groups[i].TimeLimit)
	}
	for _, limit := range limits {
		if limit > 0 && ahead >= limit {
			c.add(jobspec.CodeConflict, "checkpoint.before_limit", "make before_limit shorter than the time limit",
				"before_limit (%v) is not shorter than the time limit (%v)", ahead, limit)
			return
		}
	}
}

// nodeLocal checks a job whose checkpoint moves from node to node. A worker's checkpoint goes to
// the worker with the same number in the next attempt, so the numbers must have the same meaning
// there.
func (c *checker) nodeLocal(j *jobspec.Job) {
	const where = "checkpoint.node_local"
	p := j.Checkpoint.Path
	if p != "" && (path.Clean(p) != p || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../")) {
		c.add(jobspec.CodeConflict, "checkpoint.path",
			"write a relative path without .., such as \"model.pt\", or leave it out",
			"with node_local = true the path is below %s, and %q is not", jobspec.CheckpointDir, p)
	}
	if len(j.Groups) > 1 {
		c.add(jobspec.CodeUnsupported, where, "save to a shared file system, or submit a job for each group",
			"node_local in a job of several groups is not supported")
	}
	if elasticGroup(j) >= 0 {
		c.add(jobspec.CodeUnsupported, where, "save to a shared file system, or leave out elastic",
			"node_local in an elastic job is not supported, because the work is divided differently after a resize")
	}
}

func (c *checker) preemption(j *jobspec.Job) {
	p := j.Preemption
	if p == nil {
		return
	}
	if j.RunsOnce() && j.Checkpoint != nil && j.Checkpoint.BeforeLimit == 0 { // a job that runs once may save and then end
		c.add(jobspec.CodeConflict, "preemption.requeue", "leave out requeue = false (--no-requeue), or the checkpoint",
			"a checkpoint block means that the job continues after a restart, but this job must never be started again")
	}
	c.preemptionMode(j, p.Mode)
	if c.choice("preemption.exit_zero", p.ExitZero, jobspec.ExitSaved, jobspec.ExitDone); j.RunsOnce() &&
		p.ExitZero == jobspec.ExitSaved {
		c.add(jobspec.CodeConflict, "preemption.exit_zero", "leave out requeue = false, or exit_zero",
			"a job that is never started again cannot be requeued when it exits with 0")
	}
	c.signal("preemption.signal", p.Signal)
	c.choice("preemption.signal_to", p.SignalTo, jobspec.SignalScript, jobspec.SignalPrograms)
	c.duration("preemption.grace_period", p.GracePeriod)
}

// preemptionMode checks how a job is preempted. Known modes that this version does not support are
// refused by name.
func (c *checker) preemptionMode(j *jobspec.Job, mode string) {
	const where = "preemption.mode"
	switch mode {
	case "", jobspec.PreemptSuspend:
	case "checkpoint", "requeue", "shrink", "cancel", "never":
		c.add(jobspec.CodeUnsupported, where, "leave it out: a stopped job is requeued, an elastic job gives up workers "+
			"first, and a checkpoint block lets it go on from there", "mode %q is not supported yet", mode)
		return
	default:
		c.choice(where, mode, jobspec.PreemptSuspend)
		return
	}
	if mode == "" {
		return
	}
	if j.Class == jobspec.TE {
		c.add(jobspec.CodeConflict, where, "leave mode out, or class = \"te\"",
			"a trial-and-error job is never preempted, so it cannot be suspended either")
	}
	for i := range j.Groups {
		switch {
		case j.Groups[i].Exclusive:
			c.add(jobspec.CodeConflict, at("groups", i)+".exclusive", "leave out exclusive or mode",
				"a suspended job keeps only its memory on its nodes, so it cannot have whole nodes")
		case j.Groups[i].Elastic != nil:
			c.add(jobspec.CodeUnsupported, at("groups", i)+".elastic", "leave out mode: an elastic job gives up workers first",
				"mode \"suspend\" in an elastic job is not supported yet")
		}
	}
}

// licenses checks the licences that a job requests.
func (c *checker) licenses(licenses map[string]int) {
	if len(licenses) == 0 {
		return
	}
	if len(licenses) > jobspec.MaxLicenses {
		c.add(jobspec.CodeRange, "licenses", "", "there are %d licences: at most %d", len(licenses), jobspec.MaxLicenses)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(licenses)) {
		if !jobspec.ValidName(name) {
			c.add(jobspec.CodeName, "licenses", "write the name under which the cluster has this licence", "%q is not a name",
				name)
		}
		if n := licenses[name]; n < 1 || n > jobspec.MaxLicenseCount {
			c.add(jobspec.CodeRange, "licenses", "", "%d of licence %s is out of range: 1 to %d", n, name,
				jobspec.MaxLicenseCount)
		}
	}
}

// Each of the rules below checks one kind of value.

func (c *checker) name(path, name string) {
	if !c.scheduling && !jobspec.ValidName(name) {
		c.add(jobspec.CodeName, path,
			"use letters, digits, '.', '_' and '-', at most 63, with a letter or digit at both ends", "%q is not a name", name)
	}
}

func (c *checker) nameIfSet(path, name string) {
	if name != "" {
		c.name(path, name)
	}
}

func (c *checker) choice(path, value string, choices ...string) {
	if value == "" {
		return
	}
	for _, choice := range choices {
		if value == choice {
			return
		}
	}
	c.add(jobspec.CodeChoice, path, "write "+oneOf(choices), "%q is unknown here", value)
}

// oneOf lists words in the form "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (c *checker) between(path string, n, low, high int) {
	if n < low || n > high {
		c.add(jobspec.CodeRange, path, "", "%d is out of range: %d to %d", n, low, high)
	}
}

func (c *checker) duration(path string, d jobspec.Seconds) {
	if d < 0 || d > jobspec.MaxDuration {
		c.add(jobspec.CodeRange, path, "", "%d seconds is out of range: 1s to %v", int64(d), jobspec.MaxDuration)
	}
}

func (c *checker) size(path string, b, least jobspec.Bytes) {
	if b != 0 && (b < least || b > jobspec.MaxSize) {
		c.add(jobspec.CodeRange, path, "", "%v is out of range: %v to %v", b, least, jobspec.MaxSize)
	}
}

func (c *checker) atMost(path string, n, limit int, what string) {
	if n > limit {
		c.add(jobspec.CodeTooLarge, path, "", "%d %s are too many: at most %d", n, what, limit)
	}
}

// freeText checks a descriptive text; it returns nil if there is no mistake.
func (c *checker) freeText(where string, text *string, most int) {
	if text != nil {
		c.addAt(where, jobspec.CheckText(*text, most))
	}
}

// plainText refuses a text that cannot be passed to a program, or that JSON would change.
func (c *checker) plainText(path, text string) {
	c.addAt(path, jobspec.CheckText(text, math.MaxInt))
}

func (c *checker) absolute(where, p string) {
	if p == "" {
		return
	}
	c.plainText(where, p)
	if !path.IsAbs(p) {
		c.add(jobspec.CodePath, where, "start it with /", "%q is not an absolute path", p)
	}
}

func (c *checker) signal(path, name string) {
	if name == "" || knownSignal(name) {
		return
	}
	hint := "write one of " + strings.Join(jobspec.Signals[:], ", ")
	if known := "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"); knownSignal(known) {
		hint = fmt.Sprintf("write %q", known)
	}
	c.add(jobspec.CodeSignal, path, hint, "%q is not a signal", name)
}

func knownSignal(name string) bool { return slices.Contains(jobspec.Signals[:], name) }

func (c *checker) meta(path string, meta map[string]string) {
	if len(meta) == 0 {
		return
	}
	c.atMost(path, len(meta), jobspec.MaxMetaKeys, "entries")
	total, variables := 0, map[string]string{}
	for _, key := range sortedKeys(meta) {
		if other, taken := variables[jobspec.Variable(key)]; taken {
			c.add(jobspec.CodeDuplicate, path+"."+key, "rename one of them", "%s and %s would both be $ROTA_META_%s", other,
				key, jobspec.Variable(key))
		}
		variables[jobspec.Variable(key)] = key
		total += len(key) + len(meta[key])
		if !jobspec.ValidName(key) {
			c.name(path+"."+key, key)
		}
		c.plainText(path+"."+key, meta[key])
	}
	c.atMost(path, total, jobspec.MaxMetaBytes, "bytes")
}

func (c *checker) export(globs []string) {
	c.atMost("export", len(globs), jobspec.MaxExport, "patterns")
	for i, glob := range globs {
		plain := strings.NewReplacer("*", "_", "?", "_").Replace(glob)
		if !jobspec.ValidExport(plain) {
			c.add(jobspec.CodeText, at("export", i), "use the name of a variable; * and ? stand for parts of names",
				"%q is not a pattern of variable names", glob)
		}
	}
}

// env checks variables whose names are known to be valid.
func (c *checker) env(path string, env map[string]string, valid func(name string) bool) {
	total := 0
	for _, key := range sortedKeys(env) {
		total += len(key) + len(env[key]) + 2
		where := path + "." + key
		c.variableName(where, key, valid)
		c.plainText(where, env[key])
	}
	c.atMost(path, total, jobspec.MaxEnvBytes, "bytes")
}

// variableName refuses a name that a task's variable cannot have.
func (c *checker) variableName(where, name string, valid func(name string) bool) {
	switch {
	case !valid(name):
		c.add(jobspec.CodeText, where, "use letters, digits and underscores, not starting with a digit",
			"%q cannot name a variable", name)
	case strings.HasPrefix(name, "ROTA_"):
		c.add(jobspec.CodeConflict, where, "choose a name that does not start with ROTA_", "%s is set by Rota itself", name)
	}
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
