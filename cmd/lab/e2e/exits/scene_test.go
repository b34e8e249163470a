package exits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/container"
)

// stage is what the containers of a cell are made of.
type stage interface {
	// script is the program of the cell.
	script() string
	// open makes the machine of a node.
	open(n *node, dir string) (container.Runtime, noded.Bundles, error)
	// executing and begun say whether the program of a worker runs, and whether it handles signals and has
	// written its first line.
	executing(worker int) bool
	begun(worker int) bool
	// begin lets programs come to their first line.
	begin()
	// linger has programs take their time when they are asked to leave; leave lets them go.
	linger()
	leaving(worker int) bool
	leave()
	// end has programs end by themselves, without that their nodes notice before notice is called.
	end(nodes []*node, hidden bool) error
	notice(nodes []*node) error
	// lapse ends the leases of all containers of a node.
	lapse(n *node) error
	// says returns what the program of the first worker has written, false if that is not known.
	says() ([]string, bool)
	close() error
}

var owner = model.Identity{UID: 23456, GID: 23456, User: "tester", Home: "/tmp"}

// scene is the play of one cell.
type scene struct {
	cell
	stage
	*controllers
	nodes []*node
	job   model.JobID
	deps  map[string]model.JobID
	trial model.JobID // the waiting job that gets the room
}

// patience bounds each wait of a cell. A busy machine needs far less.
const patience = 60 * time.Second

// await waits until something is so.
func (s *scene) await(what string, so func() bool) error {
	for end := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			j := s.view().Job(s.job)
			return fmt.Errorf("%s: not within %v: %s, %+v", what, patience, j.State, j.Attempts)
		}
	}
	return nil
}

// play brings a job to its moment, stops it, and returns what is wrong with what has become of it.
func (c cell) play(st stage, dir string) error {
	s := c.scene(st)
	return s.through(dir, s.submit, s.reach, s.stop, s.check)
}

// refute shows that a cell is impossible for the reason that the table gives.
func (c cell) refute(st stage, dir string) error {
	s := c.scene(st)
	if c.resizes() {
		return s.through(dir, func() error {
			if err := s.submit(); err == nil {
				return errors.New("the job is taken, so that the cell is possible")
			}
			return nil
		})
	}
	return s.through(dir, s.submit, s.reach, func() error {
		switch {
		case c.stop == model.CauseLease && s.anyLive():
			return errors.New("there is a container, so that the cell is possible")
		case c.stop == model.CauseTimeout && s.view().Job(s.job).EndsAt(s.attempt()) != 0:
			return errors.New("the attempt has a time limit, so that the cell is possible")
		}
		return nil
	})
}

func (c cell) scene(st stage) *scene {
	return &scene{cell: c, stage: st, controllers: newControllers(), deps: map[string]model.JobID{}}
}

// through starts the nodes, takes steps until one fails, and ends everything.
func (s *scene) through(dir string, steps ...func() error) (err error) {
	defer func() {
		if end := s.end(); err == nil {
			err = end
		}
	}()
	if err := s.open(dir); err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// open starts the nodes.
func (s *scene) open(dir string) error {
	for _, name := range []string{"n1", "n2"} {
		n := newNode(s.controllers, name)
		r, b, err := s.stage.open(n, dir)
		if err == nil {
			err = n.start(dir+"/"+name+".journal", r, b)
		}
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
	}
	return s.await("the nodes have their GPUs", func() bool {
		v := s.view()
		return len(v.Nodes()) == 2 && !slices.ContainsFunc(v.Nodes(), func(n *model.Node) bool { return len(n.GPUs) < 2 })
	})
}

// submit submits the job, those that depend on it, and one that waits for its room.
func (s *scene) submit() error {
	one := func(j *jobspec.Job) (model.JobID, error) {
		ids, _, err := s.apply(fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{j}})
		if err != nil {
			return 0, err
		}
		return ids.([]model.JobID)[0], nil
	}
	var err error
	if s.job, err = one(s.spec(s.script())); err != nil {
		return err
	}
	for kind := range fates(again) {
		j := other("dependent")
		j.Dependencies = []jobspec.Dependency{{Type: kind, Jobs: []string{fmt.Sprint(s.job)}}}
		j.Default()
		if s.deps[kind], err = one(j); err != nil {
			return err
		}
	}
	trial := other("trial")
	trial.Class = jobspec.TE
	s.trial, err = one(trial)
	return err
}

// other is a job beside that of a cell.
func other(name string) *jobspec.Job {
	j := &jobspec.Job{Name: name, TimeLimit: 60, Workdir: "/", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
		Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.MiB}}}}}}
	j.Default()
	return j
}

// place is room on a node for one worker.
func (s *scene) place(node int) model.Place {
	p := model.Place{Node: s.nodes[node].name}
	for g := range s.launch.gpus {
		p.GPUs = append(p.GPUs, g)
	}
	return p
}

// attempt returns the first attempt of the job.
func (s *scene) attempt() *model.Attempt {
	j := s.view().Job(s.job)
	if len(j.Attempts) == 0 {
		return &model.Attempt{}
	}
	return &j.Attempts[0]
}

// programs lists the workers that run the program.
func (s *scene) programs() []int {
	if s.launch.kind == jobspec.LaunchSteps {
		return []int{0}
	}
	return []int{0, 1}[:s.workers()]
}

// all reports whether something is so of each worker that runs the program.
func (s *scene) all(so func(int) bool) bool {
	return !slices.ContainsFunc(s.programs(), func(w int) bool { return !so(w) })
}

// used lists the nodes that have workers.
func (s *scene) used() []*node { return s.nodes[:s.workers()] }

// reach launches the job, and brings it to the moment of the cell.
func (s *scene) reach() error {
	unreleased := s.at == created && s.workers() > 1
	for k, n := range s.nodes {
		n.set(func() { n.cut, n.keepsEnds = s.at == assigned || unreleased && k > 0, s.at == unreported })
		if s.at == released || s.at == created && !unreleased {
			n.hold = s.at
		}
	}
	start := &fsm.StartJob{Job: s.job}
	for k := range s.workers() {
		start.Places = append(start.Places, s.place(k))
	}
	if s.workers() > 1 {
		start.Port, _ = s.view().FreePort("n1")
	}
	if _, err := s.plan(start); err != nil {
		return err
	}
	switch s.at {
	case assigned:
		return nil
	case created, released:
		return s.await("the launch comes to its moment", func() bool {
			if unreleased {
				return s.attempt().Workers[0].State == model.WorkerCreated
			}
			return !slices.ContainsFunc(s.used(), func(n *node) bool { return !n.isHeld() })
		})
	}
	return s.run()
}

// run brings the program to the moment of the cell.
func (s *scene) run() error {
	if err := s.await("the programs run", func() bool {
		return s.all(s.executing) && s.view().Job(s.job).State == model.Running
	}); err != nil || s.at == executing {
		return err
	}
	s.begin()
	if err := s.await("the programs have begun", func() bool { return s.all(s.begun) }); err != nil || s.at == output {
		return err
	}
	switch s.at {
	case inGrace:
		s.linger()
		index, err := s.plan(&fsm.StopJob{Job: s.job, Attempt: 1, Cause: model.CauseTE, For: s.trial})
		if err != nil {
			return err
		}
		return s.await("the programs are asked to leave", func() bool {
			return s.all(s.leaving) && s.signalled(index)
		})
	case exiting:
		for _, n := range s.nodes {
			n.hide()
		}
		return s.stage.end(s.used(), true)
	}
	if err := s.stage.end(s.used(), false); err != nil {
		return err
	}
	return s.await("the nodes know of the end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.all(func(w int) bool { return slices.Contains(s.nodes[w].kept, w) })
	})
}

// signalled reports whether the nodes know of a stop and have asked the programs to leave.
func (s *scene) signalled(index uint64) bool {
	return s.all(func(w int) bool { return s.nodes[w].knows(index) && s.nodes[w].asksSoFar() > 0 })
}

// stop asks for the stop of the cell, and lets happen what was held.
func (s *scene) stop() error {
	switch s.cell.stop {
	case model.CauseNodeLost:
		return s.loseNodes()
	case model.CauseLease:
		return s.loseLeases()
	}
	index, err := s.ask()
	if denied := s.expect().denied; denied != (err != nil) {
		return fmt.Errorf("the stop is refused: %t, as %w", err != nil, err)
	}
	switch {
	case err != nil:
	case s.at == assigned, s.at == created && s.workers() > 1:
		s.connect()
	case s.at == unreported:
		for _, n := range s.nodes {
			n.set(func() { n.keepsEnds = false })
		}
	case s.at == exiting:
		late := func() bool { return s.signalled(index) }
		if err := s.await("the programs are asked to leave, too late", late); err != nil {
			return err
		}
	}
	if err == nil {
		if err := s.await("the nodes know of the stop", func() bool {
			return s.attempt().Ended.At != 0 || s.all(func(w int) bool { return s.nodes[w].knows(index) })
		}); err != nil {
			return err
		}
	}
	return s.letGo()
}

// letGo lets happen what was held.
func (s *scene) letGo() error {
	for _, n := range s.nodes {
		select {
		case <-n.let:
		default:
			close(n.let)
		}
	}
	switch s.at {
	case inGrace:
		s.leave()
	case exiting:
		return s.notice(s.used())
	}
	return nil
}

// connect lets everything pass to and from the nodes.
func (s *scene) connect() {
	for _, n := range s.nodes {
		n.set(func() { n.cut, n.keepsEnds = false, false })
	}
}

func (s *scene) cutOff() {
	for _, n := range s.nodes {
		n.set(func() { n.cut = true })
	}
}

// ask asks for the stop, and returns the index from which on it is in the log.
func (s *scene) ask() (uint64, error) {
	switch c := s.cell.stop; c {
	case model.CauseCancelled:
		return s.control(model.VerbCancel, s.job, "")
	case model.CauseRequeue:
		return s.control(model.VerbRequeue, s.job, "")
	case model.CauseShrink:
		return s.plan(&fsm.ResizeJob{Job: s.job, Attempt: 1, Leave: []int{1}})
	case model.CauseGrow:
		return s.plan(&fsm.ResizeJob{Job: s.job, Attempt: 1, Join: []model.Place{s.place(1)}})
	case model.CauseTE, model.CauseReclaim, model.CauseOrder:
		return s.plan(&fsm.StopJob{Job: s.job, Attempt: 1, Cause: c, For: s.trial})
	default:
		return s.plan(&fsm.StopJob{Job: s.job, Attempt: 1, Cause: c})
	}
}

// loseNodes cuts the nodes off until their leases are over.
func (s *scene) loseNodes() error {
	s.cutOff()
	for _, n := range s.nodes {
		if _, _, err := s.apply(fsm.SetNodeState{Node: n.name, State: model.NodeDown}); err != nil {
			return err
		}
	}
	s.skip(leaseMS + marginMS + 1)
	_, err := s.plan(&fsm.EndAttempt{Job: s.job, Attempt: 1, Cause: model.CauseNodeLost})
	return err
}

// loseLeases ends the leases of the containers while the nodes are cut off.
func (s *scene) loseLeases() error {
	s.cutOff()
	for _, n := range s.used() {
		if err := s.lapse(n); err != nil {
			return err
		}
	}
	if s.at == inGrace {
		s.leave()
	}
	if s.at == exiting {
		if err := s.notice(s.used()); err != nil {
			return err
		}
	}
	if err := s.await("the containers end with their leases", func() bool { return !s.anyLive() }); err != nil {
		return err
	}
	s.connect()
	return s.letGo()
}

// anyLive reports whether a container has not ended.
func (s *scene) anyLive() bool {
	return s.anyContainer(func(c container.Status) bool {
		return c.State == container.Created || c.State == container.Running
	})
}

// anyContainer reports whether there is a container of which something is so.
func (s *scene) anyContainer(is func(container.Status) bool) bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool {
		list, err := n.bare.List(context.Background())
		return err != nil || slices.ContainsFunc(list, is)
	})
}

// check waits for the end of the attempt, and compares it with the rules.
func (s *scene) check() error {
	if err := s.await("the attempt ends", func() bool { return s.attempt().Ended.At != 0 }); err != nil {
		return err
	}
	var wrong []string
	note := func(what string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s %v, not %v", what, got, want))
		}
	}
	want, view := s.expect(), s.view()
	j, a := view.Job(s.job), s.attempt()
	got := j.State
	if got == model.Pending || got == model.Configuring || j.Attempt > 1 {
		got = again
	}
	note("state", got, want.state)
	if want.cause != "" {
		note("cause", a.Cause, want.cause)
	}
	left := exit{a.ExitCode, a.Signal}
	switch {
	case want.exit != nil:
		note("exit", left, *want.exit)
	case s.cell.stop != model.CauseNodeLost && left == exit{}:
		wrong = append(wrong, "exit 0:0 of a program that never ran")
	}
	for kind, fate := range fates(want.state) {
		note(kind, s.fate(kind), fate)
	}
	if _, known := s.says(); known {
		said := func() string { lines, _ := s.says(); return strings.Join(lines, " ") }
		all := strings.Join(want.says, " ")
		for end := time.Now().Add(2 * time.Second); said() != all && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // of a program that runs on the last line may be on its way
		}
		note("output", said(), all)
	}
	if err := s.audit(); err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// fate says what has become of a dependent.
func (s *scene) fate(kind string) string {
	switch j := s.view().Job(s.deps[kind]); {
	case j.State == model.Cancelled:
		return "never"
	case j.State != model.Pending:
		return string(j.State)
	case j.Blocked():
		return "waits"
	}
	return "starts"
}

// end ends what still runs, and the nodes.
func (s *scene) end() error {
	s.connect()
	_ = s.letGo()
	_, _ = s.control(model.VerbCancel, s.job, "SIGKILL") // it may have ended
	err := s.await("everything ends", func() bool {
		return s.job == 0 || s.view().Job(s.job).State.Final() &&
			!s.anyContainer(func(container.Status) bool { return true })
	})
	for _, n := range s.nodes {
		if e := n.stop(); err == nil {
			err = e
		}
	}
	if e := s.stage.close(); err == nil {
		err = e
	}
	return err
}
