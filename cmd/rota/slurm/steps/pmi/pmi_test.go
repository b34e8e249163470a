package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// client is one end of a connection with a server.
type client struct {
	*testing.T
	in   *bufio.Reader
	conn net.Conn
	over chan error // of Serve
}

func connect(t *testing.T, s *Server, rank int) *client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, bufio.NewReader(near), near, make(chan error, 1)}
	t.Cleanup(func() { near.Close() })
	go func() {
		c.over <- s.Serve(rank, far)
		far.Close()
	}()
	return c
}

// says sends a text and wants an answer.
func (c *client) says(text, want string) {
	c.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.Fatal(err)
	}
	c.hears(want)
}

func (c *client) hears(want string) {
	c.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c.in, got); err != nil || string(got) != want {
		c.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestPMI1 has what MPICH's client of PMI-1 says, and what it wants to hear.
func TestPMI1(t *testing.T) {
	aborted := make(chan string, 1)
	s := NewServer("7.0", []int{0, 0}, func(rank int, why string) { aborted <- fmt.Sprint(rank, " ", why) })
	a, b := connect(t, s, 0), connect(t, s, 1)
	for _, c := range []*client{a, b} {
		c.says("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
		c.says("cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n")
	}
	a.says("cmd=get_universe_size\n", "cmd=universe_size size=2\n")
	a.says("cmd=get_appnum\n", "cmd=appnum appnum=0\n")
	a.says("cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=7.0\n")
	a.says("cmd=get kvsname=7.0 key=PMI_process_mapping\n",
		"cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n")
	a.says("cmd=put kvsname=7.0 key=bc-0 value=host = 1.2.3.4;x\n", "cmd=put_result rc=0 msg=success\n")
	a.says("cmd=put kvsname=7.0 key= value=x\n",
		"cmd=put_result rc=-1 msg=a_key_has_1_to_64_bytes_and_a_value_at_most_1024\n")
	b.says("cmd=get kvsname=7.0 key=bc-9\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n")
	if _, err := io.WriteString(a.conn, "cmd=barrier_in\n"); err != nil {
		t.Fatal(err)
	}
	b.says("cmd=barrier_in\n", "") // both are answered when the last has come
	a.hears("cmd=barrier_out rc=0\n")
	b.hears("cmd=barrier_out rc=0\n")
	b.says("cmd=get kvsname=7.0 key=bc-0\n", "cmd=get_result rc=0 msg=success value=host = 1.2.3.4;x\n")
	b.says("cmd=publish_name service=x port=y\n", "cmd=publish_result info=fail rc=-1 msg=not_supported\n")
	b.says("cmd=finalize\n", "cmd=finalize_ack rc=0\n")
	if err := <-b.over; err != nil {
		t.Error(err)
	}
	a.says("cmd=abort exitcode=3\n", "")
	if got := <-aborted; got != "0 exit code 3" {
		t.Errorf("the abort says %q", got)
	}
	for text, want := range map[string]string{
		"cmd=frob\n": "\"frob\" is not supported", "mcmd=spawn\n": "\"spawn\" is not supported",
		"x\n": "\"x\" is not NAME=VALUE", "\n": "an empty message",
		"cmd=init pmi_version=9\n": "PMI version \"9\" is not supported",
	} {
		c := connect(t, s, 0)
		go func() { _, _ = io.Copy(io.Discard, c.conn) }()
		if _, err := io.WriteString(c.conn, text); err != nil {
			t.Error(err)
		}
		if err := <-c.over; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func block(text string) string { return fmt.Sprintf("%6d%s", len(text), text) }

// TestPMI2 has what clients of PMI-2 say, with threads and values that have semicolons.
func TestPMI2(t *testing.T) {
	s := NewServer("7.0", []int{0, 1}, func(int, string) {})
	a, b := connect(t, s, 0), connect(t, s, 1)
	for i, c := range []*client{a, b} {
		c.says("cmd=init pmi_version=2 pmi_subversion=0\n", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
		c.says(block("cmd=fullinit;pmijobid=7.0;pmirank=0;threaded=FALSE;"), block(fmt.Sprintf(
			"cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=%d;size=2;appnum=0;debugged=FALSE;"+
				"pmiverbose=FALSE;rc=0;", i)))
	}
	a.says(block("cmd=job-getid;thrid=0x1;"), block("cmd=job-getid-response;thrid=0x1;jobid=7.0;rc=0;"))
	a.says(block("cmd=kvs-put;key=k;value=a;;b=c;"), block("cmd=kvs-put-response;rc=0;"))
	a.says(block("cmd=info-getjobattr;key=PMI_process_mapping;"),
		block("cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,2,1));rc=0;"))
	a.says(block("cmd=info-getjobattr;key=universeSize;"), block("cmd=info-getjobattr-response;found=TRUE;value=2;rc=0;"))
	a.says(block("cmd=info-getnodeattr;key=n;wait=TRUE;thrid=0x2;"), "")
	b.says(block("cmd=info-putnodeattr;key=n;value=of b;"), block("cmd=info-putnodeattr-response;rc=0;"))
	a.says(block("cmd=info-getnodeattr;key=n;wait=FALSE;"), block("cmd=info-getnodeattr-response;found=FALSE;rc=0;"))
	if _, err := io.WriteString(a.conn, block("cmd=info-putnodeattr;key=n;value=of a;")); err != nil {
		t.Fatal(err)
	}
	put, got := block("cmd=info-putnodeattr-response;rc=0;"),
		block("cmd=info-getnodeattr-response;thrid=0x2;found=TRUE;value=of a;rc=0;")
	both := make([]byte, len(put)+len(got)) // in any order
	if _, err := io.ReadFull(a.in, both); err != nil || string(both) != put+got && string(both) != got+put {
		t.Errorf("got %q, %v", both, err)
	}
	if _, err := io.WriteString(a.conn, block("cmd=kvs-fence;")); err != nil {
		t.Fatal(err)
	}
	b.says(block("cmd=kvs-fence;"), "")
	a.hears(block("cmd=kvs-fence-response;rc=0;"))
	b.hears(block("cmd=kvs-fence-response;rc=0;"))
	b.says(block("cmd=kvs-get;jobid=7.0;srcid=-1;key=k;"), block("cmd=kvs-get-response;found=TRUE;value=a;;b=c;rc=0;"))
	b.says(block("cmd=spawn;"), block("cmd=spawn-response;rc=1;errmsg=spawn is not supported;"))
	b.says(block("cmd=finalize;"), block("cmd=finalize-response;rc=0;"))
}

// TestMapping says on which nodes ranks are, as the vector of PMI_process_mapping has it.
func TestMapping(t *testing.T) {
	for want, nodes := range map[string][]int{
		"(vector,(0,2,2))":                 {0, 0, 1, 1},
		"(vector,(0,1,2),(1,2,1))":         {0, 0, 1, 2},
		"(vector,(0,2,1),(0,2,1))":         {0, 1, 0, 1},
		"(vector,(0,1,3),(1,1,1))":         {0, 0, 0, 1},
		"(vector,(0,2,1),(0,1,1),(2,1,1))": {0, 1, 0, 2},
	} {
		if got := mapping(nodes); got != want {
			t.Errorf("%v: %s, want %s", nodes, got, want)
		}
	}
}

// TestLink: only what knows the secret gets in, each rank once, and it believes only its own server.
func TestLink(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text := l.Address.String()
	addr, err := ParseAddress(text)
	if err != nil || addr.String() != text {
		t.Fatalf("%q is read as %q, %v", text, addr, err)
	}
	addr.Hosts = []string{"127.0.0.1"}
	var early sync.WaitGroup
	early.Go(func() { // it waits for the beginning
		conn, size, err := addr.Dial(t.Context(), 1)
		if err != nil || size != 2 {
			t.Errorf("size %d, %v", size, err)
			return
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "cmd=get_appnum\n"); err != nil {
			t.Error(err)
		}
		if m, err := readLine(bufio.NewReader(conn)); err != nil || m.get("appnum") != "0" {
			t.Errorf("%v, %v", m, err)
		}
	})
	l.Begin(NewServer("7.0", []int{0, 0}, nil))
	early.Wait()
	for rank, secret := range map[int]string{1: addr.Secret, 2: addr.Secret, 0: "another"} {
		bad := addr
		bad.Secret = secret
		if conn, _, err := bad.Dial(t.Context(), rank); err == nil {
			conn.Close()
			t.Errorf("rank %d with the secret %q gets in", rank, secret)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := addr.Dial(canceled, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, bad := range []string{"", "a/b/c", "a/1", "/1/h", "a/99999/h", "a/1/"} {
		if _, err := ParseAddress(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// needs skips a test on a machine without a program.
func needs(t *testing.T, pack, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs %s of Debian's package %s, which is not installed", program, pack)
	}
	return path
}

const hello = `#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
	int rank, size, sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d, all together %d\n", rank, size, sum);
	MPI_Finalize();
	return 0;
}
`

// TestMPICH runs a program of the real MPICH on this machine, as if its ranks were on two nodes.
// They are connected like tasks of steps.
func TestMPICH(t *testing.T) {
	cc := needs(t, "libmpich-dev", "mpicc.mpich")
	needs(t, "gcc", "gcc")
	dir := t.TempDir()
	program := filepath.Join(dir, "hello")
	if err := os.WriteFile(program+".c", []byte(hello), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", program, program+".c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Begin(NewServer("7.0", []int{0, 0, 1, 1}, func(rank int, why string) { t.Errorf("rank %d aborts: %s", rank, why) }))
	var all sync.WaitGroup
	outs := make([]string, 4)
	for rank := range outs {
		all.Go(func() {
			conn, size, err := l.Dial(t.Context(), rank)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			f, err := conn.File()
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			f.Fd() // blocking
			cmd := exec.CommandContext(t.Context(), program)
			cmd.ExtraFiles = []*os.File{f}
			cmd.Env = append(os.Environ(), "PMI_FD=3", fmt.Sprintf("PMI_RANK=%d", rank), fmt.Sprintf("PMI_SIZE=%d", size))
			out, err := cmd.CombinedOutput()
			if outs[rank] = string(out); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	all.Wait()
	for rank, out := range outs {
		if want := fmt.Sprintf("rank %d of 4, all together 6\n", rank); out != want {
			t.Errorf("rank %d wrote %q, want %q", rank, out, want)
		}
	}
}

// FuzzMessages looks for texts that are read in another way than they are written.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{"cmd=init pmi_version=1\n", "cmd=put key=a value=b = c\n", "    13cmd=a;b=c;;d;", "x",
		"     0", "999999a", "cmd==\n", " a=b  c=d\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := readLine(bufio.NewReader(strings.NewReader(text))); err == nil {
			again, err := readLine(bufio.NewReader(strings.NewReader(string(m.line()))))
			if err != nil || !slices.Equal(m, again) {
				t.Errorf("%q is %v, and written %q, %v", text, m, again, err)
			}
		}
		if m, err := readBlock(strings.NewReader(text)); err == nil {
			again, err := readBlock(strings.NewReader(string(m.block())))
			if err != nil && len(m.block()) <= maxMessage || err == nil && !slices.Equal(m, again) {
				t.Errorf("%q is %v, and written %q, %v", text, m, again, err)
			}
		}
	})
}
