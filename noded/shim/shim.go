// Package shim is what rota-shim does: it supervises one worker of a job. It creates the worker's
// container, or one for each of its tasks, with runc's libcontainer (runc.go), and is the parent of
// their first processes. It starts and stops the tasks (supervisor.go), and stops the worker when its
// lease ends (lease.go). Last it leaves an exit record, from which the node daemon makes the worker's
// report.
//
// It holds what needs the loop of the supervisor. These rooms below it do not:
//
//	lifecycle  which tasks start and stop, and how the worker ends: a pure function
//	output     files of the output, and the scan for log policies and progress
//	session    input and output that a person reads and writes, at the IO socket
//	jobsocket  processes of the job that take part in pausing
//	oom        processes that the kernel has killed for memory
//	userfiles  directories and secrets that the job's user may read
//	criu       the images of processes, and the helper that makes them; it imports runc too
//	keyring    session keyrings of containers
package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // enters the container's namespaces before Go starts

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu/cuda"
	"github.com/rota-hpc/rota/noded/shim/criu"
)

// orderFD is the descriptor of the socket that a shim is started with.
const orderFD = 3

// Reexec turns this process into the container's first one if libcontainer has started it for that.
// If a shim has started it, it becomes a helper that calls NVIDIA's driver or saves a container.
// Then it does not return. It must be called from an init function of the command.
//
// Elsewhere it keeps the process's first thread for the main goroutine. libcontainer takes a thread
// into the mount namespace of a container, and /proc/self shows the view of the first thread.
func Reexec() {
	runtime.LockOSThread()
	switch {
	case len(os.Args) <= 1:
	case os.Args[0] == criu.Name:
		fmt.Fprintf(os.Stderr, "rota-shim: start %s: %v\n", os.Getenv(criu.Env), criu.Become())
		os.Exit(1)
	case os.Args[1] == "init":
		libcontainer.Init()
	case os.Args[1] == cudaHelper:
		if err := cuda.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "rota-shim %s: %v\n", cudaHelper, err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Args[1] == criu.SaveHelper:
		if err := criu.ServeSave(os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "rota-shim %s: %v\n", criu.SaveHelper, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Serve waits for the order to create a container, and returns when that has ended. It is called
// once.
func Serve() error {
	runtime.LockOSThread() // the container is a child of this thread, which must not end before it
	file := os.NewFile(orderFD, "orders")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("descriptor %d is not a socket: rota-shim is started by rota-noded only: %w", orderFD, err)
	}
	file.Close()
	return serve(conn)
}

// serve reads the first order of the daemon that has started this shim, and carries it out.
func serve(conn net.Conn) error {
	lines := bufio.NewReader(conn)
	line, err := lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil // the daemon does not need this shim any more
	}
	var order container.Order
	if err != nil || json.Unmarshal(line, &order) != nil || order.Op != container.OpCreate {
		return fmt.Errorf("the first order must create a container, not %q", line)
	}
	return supervise(client{conn, lines}, order)
}

// supervise creates the containers of a worker, answers the daemon, and stays with them until they
// end.
func supervise(first client, order container.Order) error {
	sup, err := newSupervisor(order)
	if err == nil {
		err = sup.create()
	}
	if err != nil {
		// a daemon that is gone will find no container and try again
		_ = first.send(container.Answer{Error: err.Error(), Final: container.IsFinal(err)})
		if sup != nil {
			sup.discard()
		}
		return err
	}
	sup.addClient(first)
	go sup.acceptClients()
	_ = first.send(sup.answer()) // a daemon that is gone finds the container by its socket
	return sup.run()
}
