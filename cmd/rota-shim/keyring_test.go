package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withoutKeyctl tells the tests that they run without the system call keyctl, as in a container of
// Docker or systemd-nspawn.
const withoutKeyctl = "ROTA_TEST_WITHOUT_KEYCTL"

// refuseKeyctl has the kernel refuse keyctl to this process and to all that it starts.
func refuseKeyctl() error {
	const nr = 0 // offset of the number of the system call in what a filter sees
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_KEYCTL, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// TestWithoutKeyrings notices containers that need a session keyring of their own where the kernel
// refuses every one.
func TestWithoutKeyrings(t *testing.T) {
	if os.Getenv(withoutKeyctl) != "" {
		if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != unix.EPERM {
			t.Fatalf("keyctl is not refused: %v", err)
		}
		n := newNode(t, 1)
		exit, out := n.run(one, "echo it runs; exit 3")
		if exit.Code != 3 {
			t.Errorf("exit %+v", exit)
		}
		want(t, out, "it runs")
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestWithoutKeyrings$", "-test.v")
	cmd.Env = append(os.Environ(), withoutKeyctl+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestWithoutKeyrings") {
		t.Errorf("without keyctl: %v\n%s", err, out)
	}
}
