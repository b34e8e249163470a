package shim

import (
	"context"
	"errors"
	"slices"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu/cuda"
)

// cudaHelper is the argument with which a shim starts itself to call NVIDIA's driver, see [Reexec].
const cudaHelper = "cuda-helper"

// gpuMemory is where the GPU memory of the worker's processes is: with them on the GPUs, or moved
// to the host by the driver. It is moved in the background, one way at a time. The wish may change
// meanwhile, and is looked at again when a move is over.
type gpuMemory struct {
	driver  *cuda.Driver
	ctx     context.Context // ends with the worker
	abandon context.CancelFunc
	moves   chan move // those that are over
	moving  bool
	onHost  bool
	wanted  bool   // on the host
	because string // why the worker cannot pause in another way
	lost    string // what cannot be moved back, and why; the worker has ended by that
}

// move is one that is over.
type move struct {
	out bool // to the host
	err error
}

func newGPUMemory() gpuMemory {
	m := gpuMemory{driver: &cuda.Driver{Command: []string{"/proc/self/exe", cudaHelper}}, moves: make(chan move, 1)}
	m.ctx, m.abandon = context.WithCancel(context.Background())
	return m
}

// away reports whether the processes may be without their GPU memory.
func (m *gpuMemory) away() bool { return m.moving || m.onHost }

// moveMemoryOut has the driver move the GPU memory of all processes to the host, and then freezes
// them. because says why that is needed.
func (sup *supervisor) moveMemoryOut(because string) {
	sup.memory.wanted, sup.memory.because = true, because
	sup.moveMemory()
}

// takeMemoryBack has the driver move the GPU memory back, if it has moved it. The processes run,
// and wait in their next CUDA call until then.
func (sup *supervisor) takeMemoryBack() {
	sup.memory.wanted = false
	sup.moveMemory()
}

// moveMemory does what is next to have the memory where it is wanted.
func (sup *supervisor) moveMemory() {
	m := &sup.memory
	switch {
	case m.moving || m.ctx.Err() != nil:
	case m.wanted && m.onHost:
		if err := sup.freezeTasks(); err != nil {
			sup.keepMemory(err)
			return
		}
		sup.switched(container.DriverCheckpoint)
	case m.wanted != m.onHost:
		sup.thaw() // a process moves its memory itself
		var list []*runcContainer
		for _, t := range sup.tasks {
			if t.State == container.Running {
				list = append(list, t.container)
			}
		}
		m.moving = true
		out := m.wanted
		go func() { m.moves <- move{out, m.carryOut(out, list)} }()
	}
}

// keepMemory notes that the worker cannot pause, and has it go on with its memory.
func (sup *supervisor) keepMemory(err error) {
	sup.cannotPause(sup.memory.because + "; and its GPU memory was not moved to the host: " + err.Error())
	sup.takeMemoryBack()
}

// carryOut moves the memory of all processes of the containers. It is called in the background.
func (m *gpuMemory) carryOut(out bool, list []*runcContainer) error {
	pids, err := processesOf(list)
	switch {
	case err != nil && !out:
		return &cuda.StuckError{Err: err}
	case err != nil:
		return err
	case !out:
		return m.driver.Resume(m.ctx, pids)
	}
	if err := m.driver.Suspend(m.ctx, pids); err != nil {
		return err
	}
	now, err := processesOf(list)
	if err == nil && slices.ContainsFunc(now, func(pid int) bool { return !slices.Contains(pids, pid) }) {
		err = m.driver.Suspend(m.ctx, now) // some have started meanwhile
	}
	if err != nil {
		return errors.Join(err, m.driver.Resume(m.ctx, append(now, pids...)))
	}
	return nil
}

func processesOf(list []*runcContainer) ([]int, error) {
	var all []int
	for _, c := range list {
		pids, err := c.processes()
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
}

// memoryMoved is called when a move is over.
func (sup *supervisor) memoryMoved(m move) {
	sup.memory.moving = false
	switch stuck := (*cuda.StuckError)(nil); {
	case sup.memory.ctx.Err() != nil:
		return // it is being killed
	case errors.As(m.err, &stuck):
		// without its GPU memory it can neither go on nor save, and would only hold its GPUs
		sup.memory.lost = stuck.Error()
		sup.killAll()
		return
	case m.err != nil && sup.memory.wanted:
		sup.keepMemory(m.err)
	case m.err == nil:
		sup.memory.onHost = m.out
		sup.moveMemory()
	}
	switch s := &sup.switching; {
	case sup.memory.away() || s.Done == s.Ordered:
	case s.order.Pause():
		sup.checkSwitch()
	default:
		sup.askToGoOn()
	}
}
