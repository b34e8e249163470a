package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// Bounds of a profile.
const (
	maxStep     = 1000 * 1_000_000_000 // ns of a step; longer ones have a mistaken unit
	maxBatch    = 1 << 20              // samples of one worker's share of a step
	maxSteps    = 1 << 40
	nodeWorkers = 4 // GPUs of each node on which the profiles were measured
)

// sample is one measured step in ns: its length with the exchange of gradients, and the part that
// is the exchange.
type sample struct {
	step, sync int64
}

// timing is the length of a step by each worker's batch, ascending.
type timing struct {
	batch      []int64
	step, sync []int64
}

// at returns the step at a batch, interpolated between the nearest measured ones.
func (t *timing) at(batch int64) sample {
	return sample{interpolate(t.batch, t.step, batch), interpolate(t.batch, t.sync, batch)}
}

func (t *timing) largest() int64 { return t.batch[len(t.batch)-1] }

// add puts a measurement in its place.
func (t *timing) add(batch int64, s sample) error {
	i, twice := slices.BinarySearch(t.batch, batch)
	if twice {
		return fmt.Errorf("local_bsz %d is given twice for one placement", batch)
	}
	t.batch, t.step = slices.Insert(t.batch, i, batch), slices.Insert(t.step, i, s.step)
	t.sync = slices.Insert(t.sync, i, s.sync)
	return nil
}

// shape is a number of nodes and of workers on them.
type shape struct {
	nodes, workers int64
}

// Profile holds measurements of one application. It has the length of a step by the placement of
// its workers and their batches. It also has the number of training steps at each global batch.
// [Profiles.Add] fills it.
type Profile struct {
	placements map[string]*timing // by the digits of the placement, ascending
	wide       map[shape]*timing  // more nodes than placements has, workers spread evenly
	length     map[int64]length   // of the whole training, by global batch
	least      int64              // the smallest batch of a worker that was measured
}

// length is the length of a training in steps, and in steps of the smallest batch (0 if the file
// does not give it).
type length struct {
	steps, progress int64
}

// Profiles are the profiles of applications by name. The zero value is empty and ready.
type Profiles struct {
	apps map[string]*Profile
}

// ofApplication returns the profile of an application, or nil.
func (p *Profiles) ofApplication(app string) *Profile {
	if p == nil {
		return nil
	}
	return p.apps[app]
}

// Add reads one file of the profiles: name ends in APP/placements.csv, APP/scalability.csv or
// APP/validation-BATCH.csv. One bad line refuses the file, since all jobs of the application would
// run at a wrong speed. An error names the file and the line.
func (p *Profiles) Add(name string, r io.Reader) error {
	b, err := open(r)
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	dir, file, ok := cutLast(name)
	_, app, nested := cutLast(dir)
	if !nested {
		app = dir
	}
	if !ok || app == "" {
		return fmt.Errorf("profile %s: the path lacks the folder of the application, as in bert/placements.csv", name)
	}
	if p.apps == nil {
		p.apps = map[string]*Profile{}
	}
	f := p.apps[app]
	if f == nil {
		f = &Profile{placements: map[string]*timing{}, wide: map[shape]*timing{}, length: map[int64]length{}}
	}
	if err := f.read(file, &lines{r: b}); err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	p.apps[app] = f
	return nil
}

// cutLast cuts a path before its last element.
func cutLast(name string) (dir, file string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

func (f *Profile) read(file string, l *lines) error {
	switch {
	case file == "placements.csv":
		return readEvery(l, []string{"placement", "local_bsz", "step_time", "sync_time"}, nil, f.placement)
	case file == "scalability.csv":
		return readEvery(l, []string{"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"}, nil, f.scalability)
	case strings.HasPrefix(file, "validation-"):
		batch, err := field.Whole(strings.TrimSuffix(strings.TrimPrefix(file, "validation-"), ".csv"), 1, maxSteps)
		if err != nil {
			return fmt.Errorf("the batch in its name: %w", err)
		}
		return f.validation(l, batch)
	}
	return errors.New("the file must be placements.csv, scalability.csv or validation-BATCH.csv")
}

// readEvery is [table] for a file in which each line must be good.
func readEvery(l *lines, required, optional []string, each func(*row) error) error {
	var t Trace
	if err := table(l, &t, required, optional, each); err != nil {
		return err
	}
	if t.Bad > 0 {
		return errors.New(t.Skipped[0].String())
	}
	return nil
}

func (f *Profile) placement(r *row) error {
	digits := []byte(r.text("placement"))
	if len(digits) == 0 || len(digits) > 16 || strings.Trim(string(digits), "123456789") != "" {
		return fmt.Errorf("column placement: %q must have a digit for each node", field.Shorten(string(digits)))
	}
	slices.Sort(digits)
	key, batch, s := string(digits), r.whole("local_bsz", 1, maxBatch), measured(r)
	if r.err != nil {
		return r.err
	}
	if f.placements[key] == nil {
		f.placements[key] = &timing{}
	}
	// The files hold several orders of the nodes, which differ by noise. The first of equal ones is
	// used.
	if _, twice := slices.BinarySearch(f.placements[key].batch, batch); twice {
		return nil
	}
	f.sawBatch(batch)
	return f.placements[key].add(batch, s)
}

func (f *Profile) scalability(r *row) error {
	k := shape{r.whole("num_nodes", 1, MaxWorkers), r.whole("num_replicas", 1, MaxWorkers)}
	batch, s := r.whole("local_bsz", 1, maxBatch), measured(r)
	if r.err != nil {
		return r.err
	}
	if k.workers < k.nodes {
		return fmt.Errorf("%d workers on %d nodes", k.workers, k.nodes)
	}
	if f.wide[k] == nil {
		f.wide[k] = &timing{}
	}
	f.sawBatch(batch)
	return f.wide[k].add(batch, s)
}

func (f *Profile) sawBatch(batch int64) {
	if f.least == 0 || batch < f.least {
		f.least = batch
	}
}

// measured reads the two times of a step.
func measured(r *row) sample {
	const nano = 1_000_000_000
	s := sample{r.scaled("step_time", nano, maxStep), r.scaled("sync_time", nano, maxStep)}
	switch {
	case r.err != nil:
	case s.step < 1:
		r.fail("step_time", errors.New("is zero"))
	case s.sync >= s.step:
		r.fail("sync_time", errors.New("is not less than step_time"))
	}
	return s
}

// validation reads the length of the training from the line of the last epoch.
func (f *Profile) validation(l *lines, batch int64) error {
	var last length
	err := readEvery(l, []string{"iteration"}, []string{"progress", "metric", "grad_sqr", "grad_var"}, func(r *row) error {
		now := length{steps: r.whole("iteration", 1, maxSteps)}
		if r.has("progress") {
			now.progress = r.scaled("progress", 1, maxSteps)
		}
		if r.err == nil && now.steps < last.steps {
			return fmt.Errorf("iteration %d after %d", now.steps, last.steps)
		}
		last = now
		return r.err
	})
	if err == nil && last.steps == 0 {
		err = errors.New("it has no epoch")
	}
	if err == nil {
		f.length[batch] = last
	}
	return err
}

// mostWorkers returns the largest number of workers that was measured and among which a global
// batch can be divided.
func (f *Profile) mostWorkers(batch int64) int64 {
	n := int64(0)
	for k := range f.placements {
		n = max(n, sum(k))
	}
	for k := range f.wide {
		n = max(n, k.workers)
	}
	return min(n, max(1, batch/max(1, f.least)), MaxWorkers)
}

func sum(digits string) int64 {
	n := int64(0)
	for _, d := range []byte(digits) {
		n += int64(d - '0')
	}
	return n
}

// spread divides a layout into nodes as they were measured: ascending, none with more than four
// workers. Workers beyond four on one node count as further nodes, which is never faster than it
// really is.
func spread(perNode []int) []int {
	var nodes []int
	for _, k := range perNode {
		for ; k > nodeWorkers; k -= nodeWorkers {
			nodes = append(nodes, nodeWorkers)
		}
		if k > 0 {
			nodes = append(nodes, k)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// iteration returns how long one step over a global batch takes in a layout, in ns; 0 if the
// profile has no measurement.
func (f *Profile) iteration(perNode []int, batch int64) int64 {
	nodes := spread(perNode)
	workers := int64(0)
	key := make([]byte, len(nodes))
	for i, k := range nodes {
		workers += int64(k)
		key[i] = byte('0' + k)
	}
	if workers == 0 {
		return 0
	}
	share := (batch + workers - 1) / workers
	if t := f.placements[string(key)]; t != nil {
		return t.iteration(share)
	}
	return f.between(int64(len(nodes)), workers, share)
}

// iteration returns one step in which each worker computes share samples, in passes that fit into
// memory. Only the last pass exchanges gradients.
func (t *timing) iteration(share int64) int64 {
	passes := (share + t.largest() - 1) / t.largest()
	s := t.at((share + passes - 1) / passes)
	return s.step + (passes-1)*(s.step-s.sync)
}

// between returns the step of a placement that was not measured. It interpolates between the
// measured numbers of nodes, at the same number of workers per node.
func (f *Profile) between(nodes, workers, share int64) int64 {
	known := f.nodeCounts()
	if len(known) == 0 {
		return 0
	}
	i, exact := slices.BinarySearch(known, nodes)
	switch {
	case exact, i == 0:
		return f.evenly(known[i], workers*known[i], nodes, share)
	case i == len(known):
		return f.evenly(known[i-1], workers*known[i-1], nodes, share)
	}
	lo, hi := known[i-1], known[i]
	xs := []int64{lo, hi}
	ys := []int64{f.evenly(lo, workers*lo, nodes, share), f.evenly(hi, workers*hi, nodes, share)}
	return interpolate(xs, ys, nodes)
}

// nodeCounts lists the numbers of nodes on which workers were spread evenly, ascending.
func (f *Profile) nodeCounts() []int64 {
	seen := map[int64]bool{}
	for k := range f.wide {
		seen[k.nodes] = true
	}
	for k := range f.placements {
		if k[0]+1 >= k[len(k)-1] {
			seen[int64(len(k))] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// evenly returns the time of a step of num/den workers, spread evenly on exactly nodes nodes. It
// interpolates between the nearest measured counts.
func (f *Profile) evenly(nodes, num, den, share int64) int64 {
	var points []shape
	for k := range f.wide {
		if k.nodes == nodes {
			points = append(points, k)
		}
	}
	for k := range f.placements {
		if int64(len(k)) == nodes && k[0]+1 >= k[len(k)-1] && f.wide[shape{nodes, sum(k)}] == nil {
			points = append(points, shape{nodes, sum(k)})
		}
	}
	slices.SortFunc(points, func(a, b shape) int { return cmp.Compare(a.workers, b.workers) })
	xs, ys := make([]int64, len(points)), make([]int64, len(points))
	for i, k := range points {
		xs[i], ys[i] = k.workers*den, f.timingOf(k).iteration(share)
	}
	return interpolate(xs, ys, num)
}

// timingOf returns the measurements of a shape.
func (f *Profile) timingOf(k shape) *timing {
	if t := f.wide[k]; t != nil {
		return t
	}
	digits := make([]byte, k.nodes)
	for i := range digits {
		digits[i] = byte('0' + k.workers/k.nodes)
		if int64(i) >= k.nodes-k.workers%k.nodes {
			digits[i]++
		}
	}
	return f.placements[string(digits)]
}
