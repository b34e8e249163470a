package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kills of slurmctld.
const (
	slurmKills = 20
	// slurmSpread is longer than the 5 s after which slurmctld saves its state.
	slurmSpread = 12 * time.Second
	// slurmOutageLimit ends a measurement in which slurmctld does not come back.
	slurmOutageLimit = 3 * time.Minute
	// If no job ends for slurmStall, the bench does what an operator would. After slurmHelp such
	// tries in vain it gives up. A requeued job waits for two minutes.
	slurmStall = time.Minute
	slurmHelp  = 5
	// systemdPause is how long systemd waits before it starts a service again that has failed.
	systemdPause = 100 * time.Millisecond
)

// measureSlurmctld measures Slurm as the kill and failover benches measure Rota. slurmctld is
// killed again and again while clients submit. Each acknowledged job must be known afterwards and
// must have run exactly once.
func measureSlurmctld(ctx context.Context, b *bench) error {
	if !slurm(ctx) {
		fmt.Fprintf(b.out, "slurmctld: skipped, %s: start one and set SLURM_CONF\n", noSlurm)
		return nil
	}
	dir, shared, err := b.directory("slurmctld")
	if err != nil {
		return err
	}
	s := &slurmctld{b: b, ran: filepath.Join(shared, "ran"), record: newRecord(slurmClients),
		prefix: fmt.Sprintf("rota-bench-%d-", os.Getpid()), sent: make([]int, slurmClients)}
	for i := range slurmClients {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("acks-%d", i)))
		if err != nil {
			return err
		}
		defer file.Close()
		s.acks = append(s.acks, file)
	}
	return s.measure(ctx)
}

// slurmctld is Slurm with clients that submit to it.
type slurmctld struct {
	b      *bench
	ran    string     // file to which each job appends its id and name
	acks   []*os.File // of each client: the ids and names of acknowledged jobs
	sent   []int      // jobs that each client has tried to submit
	prefix string     // of the jobs' names
	record *record
	forget time.Time // when Slurm may begin to forget jobs that have ended
	sacct  bool      // it never forgets them
	helped int       // how often jobs went on only after the bench had acted as an operator
	held   int       // jobs that Slurm has given up and keeps in the queue
}

func (s *slurmctld) measure(ctx context.Context) error {
	age, err := minJobAge(ctx)
	if err != nil {
		return err
	}
	s.forget = time.Now().Add(age)
	s.sacct = exec.CommandContext(ctx, "sacct", "-n", "-X").Run() == nil
	var outages []outage
	err = s.record.during(ctx, s.submit, func(ctx context.Context) (err error) {
		outages, err = s.b.killAtRandom(ctx, s.b.repeat(slurmKills), slurmSpread, s.kill)
		return err
	})
	if err != nil {
		return err
	}
	known, err := s.known(ctx)
	if err != nil {
		return err
	}
	if err := s.drained(ctx); err != nil {
		return err
	}
	ran, err := os.ReadFile(s.ran)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.report(outages, judge(s.record.all(), known, string(ran)))
	return nil
}

// minJobAge is how long Slurm remembers a job that has ended.
func minJobAge(ctx context.Context) (time.Duration, error) {
	out, err := exec.CommandContext(ctx, "scontrol", "show", "config").Output()
	if err != nil {
		return 0, fmt.Errorf("scontrol show config: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(line, "=")
		var seconds int
		if n, _ := fmt.Sscanf(value, "%d sec", &seconds); n == 1 && strings.TrimSpace(name) == "MinJobAge" {
			return time.Duration(seconds) * time.Second, nil
		}
	}
	return 0, errors.New("scontrol show config: it has no MinJobAge")
}

// submit submits one job, once, and notes its id and name on disk when sbatch has acknowledged it.
// Without an answer it returns no id. It returns id and name.
func (s *slurmctld) submit(ctx context.Context, client int) (string, error) {
	s.sent[client]++
	name := fmt.Sprintf("%s%d-%d", s.prefix, client, s.sent[client])
	out, err := sbatch(ctx, "-J", name, "--wrap", fmt.Sprintf(`echo "$SLURM_JOB_ID %s" >> %s`, name, s.ran)).Output()
	if err != nil {
		return "", wait(ctx, 20*time.Millisecond)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";") // a cluster's name may follow
	job := id + " " + name
	if _, err := fmt.Fprintln(s.acks[client], job); err != nil {
		return "", err
	}
	return job, s.acks[client].Sync()
}

// kill kills slurmctld, starts it again at once, and waits until each client has an answer.
func (s *slurmctld) kill(ctx context.Context) (outage, error) {
	if !s.sacct && time.Now().After(s.forget) {
		return outage{}, errors.New("Slurm forgets ended jobs before all kills are done: set a longer MinJobAge in " +
			"slurm.conf, such as 3600, or run slurmdbd")
	}
	ctx, cancel := context.WithTimeout(ctx, slurmOutageLimit)
	defer cancel()
	d, err := findDaemon(ctx, "slurmctld")
	if err != nil {
		return outage{}, err
	}
	begin := time.Now()
	if err := d.kill(ctx); err != nil {
		return outage{}, err
	}
	gone := time.Now()
	restarted := make(chan error, 1)
	go func() { restarted <- d.restart(ctx) }()
	answers, err := s.record.answersAfter(ctx, gone)
	cancel() // a restart is not repeated any more
	if err != nil {
		return outage{}, fmt.Errorf("slurmctld was killed, but not every client has an answer: %w",
			errors.Join(err, <-restarted))
	}
	return outage{answered: answers[0].Sub(begin), all: answers[len(answers)-1].Sub(begin)}, <-restarted
}

// service is a daemon of this machine, and how it was started.
type service struct {
	pid  int
	argv []string
	env  []string
}

// findDaemon finds a daemon by the name of its program.
func findDaemon(ctx context.Context, name string) (service, error) {
	out, err := exec.CommandContext(ctx, "pidof", "-s", name).Output()
	if err != nil {
		return service{}, fmt.Errorf("find %s: %w", name, err)
	}
	var d service
	if _, err := fmt.Sscan(string(out), &d.pid); err != nil {
		return d, fmt.Errorf("find %s: %w", name, err)
	}
	if d.argv, err = d.strings("cmdline"); err != nil {
		return d, err
	}
	// A first start with -c clears the state. systemd starts the daemon without it.
	d.argv = slices.DeleteFunc(d.argv, func(arg string) bool { return arg == "-c" })
	d.env, err = d.strings("environ")
	return d, err
}

// strings reads a file of the kernel about the daemon, in which each string ends with a zero byte.
func (d service) strings(file string) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", d.pid, file))
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"), err
}

// kill kills the daemon, and waits until it is gone.
func (d service) kill(ctx context.Context) error {
	if err := syscall.Kill(d.pid, syscall.SIGKILL); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // a zombie holds nothing any more
			return nil
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// restart starts the daemon, again if that fails, as systemd does, until ctx ends.
func (d service) restart(ctx context.Context) error {
	for {
		cmd := exec.Command(d.argv[0], d.argv[1:]...)
		cmd.Env = d.env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }() // it goes into the background by itself, or stays
		select {
		case err := <-ended:
			if err == nil || ctx.Err() != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		if wait(ctx, systemdPause) != nil {
			return nil
		}
	}
}

// known returns every job that Slurm knows now: "id name".
func (s *slurmctld) known(ctx context.Context) (map[string]bool, error) {
	known := map[string]bool{}
	out, err := slurmAnswer(ctx, "squeue", "-h", "-a", "-t", "all", "-o", "%i %j")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		known[strings.TrimSpace(line)] = true
	}
	if !s.sacct {
		return known, nil
	}
	if out, err = slurmAnswer(ctx, "sacct", "-n", "-a", "-X", "-P", "-D", "-o", "JobID,JobName"); err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		known[strings.Replace(strings.TrimSpace(line), "|", " ", 1)] = true
	}
	return known, nil
}

// slurmAnswer runs a command of Slurm until slurmctld answers it: one with a long queue may be too
// busy.
func slurmAnswer(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, slurmOutageLimit)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if err == nil {
			return string(out), nil
		}
		if wait(ctx, time.Second) != nil {
			return "", fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
	}
}

// drained waits until no job of the bench is pending or running. When no job ends any more it acts
// as an operator. After a crash slurmctld may drain nodes because of the ids that it gave twice,
// and wait for jobs that have ended.
func (s *slurmctld) drained(ctx context.Context) error {
	least, since, vain := -1, time.Now(), 0
	for {
		out, err := slurmAnswer(ctx, "squeue", "-h", "-a", "-o", "%j %r")
		if err != nil {
			return err
		}
		var n int
		n, s.held = s.queued(out)
		switch {
		case n == 0:
			return nil
		case least < 0 || n < least:
			least, since, vain = n, time.Now(), 0
		case time.Since(since) > slurmStall && vain == slurmHelp:
			return nil
		case time.Since(since) > slurmStall:
			fmt.Fprintf(s.b.out, "slurmctld: %d jobs are queued, but none has ended for %v: resuming its nodes\n", n,
				slurmStall)
			if err := resumeNodes(ctx); err != nil {
				return err
			}
			since, vain, s.helped = time.Now(), vain+1, s.helped+1
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

// queued counts the bench's jobs in a queue of names and reasons. It tells jobs that may run from
// those that Slurm holds until an operator releases them.
func (s *slurmctld) queued(queue string) (waiting, held int) {
	for line := range strings.Lines(queue) {
		switch {
		case !strings.HasPrefix(line, s.prefix):
		case strings.Contains(strings.ToLower(line), "held"):
			held++
		default:
			waiting++
		}
	}
	return waiting, held
}

// resumeNodes has each node report its jobs, and takes drained nodes back.
func resumeNodes(ctx context.Context) error {
	if _, err := slurmAnswer(ctx, "scontrol", "reconfigure"); err != nil {
		return err
	}
	out, err := slurmAnswer(ctx, "sinfo", "-h", "-N", "-t", "drain", "-o", "%N")
	if err != nil {
		return err
	}
	nodes := strings.Fields(out)
	slices.Sort(nodes)
	for _, node := range slices.Compact(nodes) { // a line for each partition of a node
		if _, err := slurmAnswer(ctx, "scontrol", "update", "nodename="+node, "state=resume"); err != nil {
			return err
		}
	}
	return nil
}

// judgement counts what went wrong with acknowledged jobs.
type judgement struct{ jobs, lost, reused, doubled, never int }

// judge compares acknowledged jobs, "id name", with those that are known and those that ran, a line
// for each start. A job is lost if it is not known by its id and name: the id may be another job's.
func judge(acknowledged []submission, known map[string]bool, ran string) judgement {
	starts := map[string]int{} // by name
	for line := range strings.Lines(ran) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		starts[name]++
	}
	j := judgement{jobs: len(acknowledged)}
	ids := map[string]bool{}
	for _, s := range acknowledged {
		id, name, _ := strings.Cut(s.id, " ")
		if ids[id] {
			j.reused++
		}
		ids[id] = true
		if !known[s.id] {
			j.lost++
		}
		switch n := starts[name]; {
		case n == 0:
			j.never++
		case n > 1:
			j.doubled++
		}
	}
	return j
}

func (s *slurmctld) report(outages []outage, j judgement) {
	b, name := s.b, "slurmctld killed: "
	b.add(name+"kills", float64(len(outages)), "", "", fmt.Sprintf("seed %d, restarted at once", b.seed))
	b.spread(name+"first client answered", outages, func(o outage) time.Duration { return o.answered })
	b.spread(name+"outage", outages, func(o outage) time.Duration { return o.all })
	of := fmt.Sprintf("of %d acknowledged", j.jobs)
	b.add(name+"lost", float64(j.lost), "jobs", "", of)
	b.add(name+"ids given twice", float64(j.reused), "ids", "", of)
	b.add(name+"run more than once", float64(j.doubled), "jobs", "", of)
	b.add(name+"never run", float64(j.never), "jobs", "", fmt.Sprintf("%s; %d are queued, held by Slurm", of, s.held))
	b.add(name+"nodes resumed by an operator", float64(s.helped), "times", "", "no job had ended for a minute")
}
