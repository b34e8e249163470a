package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// channel is the socket to the shim. When the shim dies it closes, and the container must end.
type channel struct{ file *os.File }

// openChannel opens the descriptor that the shim left, if there is one.
func openChannel() channel {
	fd, err := strconv.Atoi(os.Getenv(launch.ChannelEnv))
	if err != nil {
		return channel{}
	}
	unix.CloseOnExec(fd)
	return channel{os.NewFile(uintptr(fd), "shim")}
}

// listen delivers the signals that the shim orders. When the shim is gone, it ends this process,
// and with it the container.
func (c channel) listen(signals chan<- launch.Order) {
	if c.file == nil {
		return
	}
	lines := bufio.NewScanner(c.file)
	for lines.Scan() {
		var o launch.Order
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			continue
		}
		if o.Signal > 0 {
			signals <- o
		}
		if o.Detach && c.detach() == nil {
			return
		}
	}
	os.Exit(125)
}

// detach closes the channel, so that CRIU can save the container. The kernel then ends this process when
// the shim dies. CRIU restores that, with the shim that restores.
func (c channel) detach() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	c.send(launch.Result{Detached: true})
	return c.file.Close()
}

// send sends the result to the shim, if there is one. A shim that does not hear it goes by the exit
// code, which must say the same.
func (c channel) send(r launch.Result) {
	if c.file == nil {
		return
	}
	b, _ := json.Marshal(r) // a result is two numbers
	_, _ = c.file.Write(append(b, '\n'))
}
