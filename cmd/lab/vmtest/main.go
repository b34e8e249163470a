// Command vmtest runs tests of the node on a machine with cgroup version 2 alone, as current
// distributions boot it. The machine is a virtual one without KVM, with Debian's kernel, and with
// this command as the first process. It builds the tests, boots, prints what each package said, and
// exits with 1 if a test failed or the machine did not finish. See docs/testing.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// defaultPackages are those whose tests make cgroups, or read what depends on their version.
var defaultPackages = []string{"./cmd/rota-shim", "./noded/shim", "./noded/shim/oom",
	"./noded/shim/output", "./noded/shim/session", "./noded/shim/userfiles", "./noded", "./noded/container",
	"./noded/bundle", "./noded/oci", "./noded/machine", "./noded/requirements"}

type options struct {
	dir      string // where kernels are kept
	image    string
	keep     string
	run      string
	memory   int // MiB
	cores    int
	limit    time.Duration
	verbose  bool
	fetch    bool
	packages []string
}

func main() {
	if os.Getpid() == 1 {
		firstProcess()
	}
	if len(os.Args) == 2 && os.Args[1] == guestArg {
		guest()
		return
	}
	var o options
	flag.StringVar(&o.dir, "dir", "bin/vmtest", "directory in which downloaded kernels are kept")
	flag.StringVar(&o.image, "kernel", "linux-image-cloud-amd64", "Debian package of the kernel")
	flag.StringVar(&o.keep, "keep", "", "directory where the kernel's messages go")
	flag.StringVar(&o.run, "run", "", "run only the tests that match this pattern")
	flag.IntVar(&o.memory, "memory", 2048, "memory of the machine, in MiB")
	flag.IntVar(&o.cores, "cores", 2, "of the machine")
	flag.DurationVar(&o.limit, "timeout", 5*time.Minute, "how long the machine may run")
	flag.BoolVar(&o.verbose, "v", false, "print everything that the tests print")
	flag.BoolVar(&o.fetch, "fetch", false, "print the path of the kernel, download it if needed, and exit")
	flag.Parse()
	if o.packages = flag.Args(); len(o.packages) == 0 {
		o.packages = defaultPackages
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmtest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return errors.New("qemu-system-x86_64 is missing: run  " +
			"sudo apt-get install -y --no-install-recommends qemu-system-x86")
	}
	k, err := fetchKernel(ctx, o.dir, o.image)
	if err != nil {
		return err
	}
	if o.fetch {
		fmt.Println(k)
		return nil
	}
	work, err := os.MkdirTemp("", "rota-vmtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	initrd := filepath.Join(work, "initrd")
	if err := buildImage(ctx, o, work, initrd); err != nil {
		return err
	}
	keep := work
	if o.keep != "" {
		keep = o.keep
		if err := os.MkdirAll(keep, 0o755); err != nil {
			return err
		}
	}
	fmt.Printf("booting %s, %d cores, %d MiB\n", filepath.Base(k), o.cores, o.memory)
	return boot(ctx, o, qemu, k, initrd, filepath.Join(keep, "kernel.log"))
}

// kernelFlags leave out what only costs time in a machine that lives for minutes.
const kernelFlags = "console=ttyS0 loglevel=4 panic=-1 mitigations=off init_on_alloc=0 nokaslr tsc=reliable " +
	"rcupdate.rcu_expedited=1"

// boot runs the machine to its end. Its first serial line is the kernel's, its second the tests'.
func boot(ctx context.Context, o options, qemu, kernel, initrd, log string) error {
	inner, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	cmd := exec.CommandContext(inner, qemu, "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", fmt.Sprint(o.cores),
		"-m", fmt.Sprint(o.memory), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", kernel, "-initrd", initrd,
		"-append", kernelFlags,
		"-serial", "file:"+log, "-serial", "stdio")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the machine: %w", err)
	}
	r := report{out: os.Stdout, verbose: o.verbose}
	readErr := r.read(out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out) // so that the machine can end
	}
	waitErr := cmd.Wait()
	fmt.Printf("the machine ran for %.0f s; %s\n", time.Since(begun).Seconds(), &r.sum)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case inner.Err() != nil:
		return errors.Join(fmt.Errorf("the machine did not finish within %v%s", o.limit, r.where()), tail(log))
	case readErr != nil || waitErr != nil:
		return errors.Join(fmt.Errorf("the machine failed%s", r.where()), readErr, waitErr, tail(log))
	case !r.done:
		return errors.Join(fmt.Errorf("the machine ended early%s", r.where()), tail(log))
	}
	return r.verdict()
}

// tail returns the last lines that the kernel wrote, as an error.
func tail(log string) error {
	const most = 30
	b, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b), "\r", "")), "\n")
	lines = lines[max(0, len(lines)-most):]
	return fmt.Errorf("the kernel's last messages:\n%s", strings.Join(lines, "\n"))
}
