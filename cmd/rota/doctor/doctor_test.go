package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpu/gputest"
	"github.com/rota-hpc/rota/noded/gpu/nvml"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "nvml-helper" { // as rota-noded
		if err := nvml.Serve("", os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rotatest.Main(m, Commands)
}

// TestReadGPUs asks the library that stands in for NVML through a process, as the node daemon does.
func TestReadGPUs(t *testing.T) {
	library := gputest.Build(t, false)
	world := filepath.Join(t.TempDir(), "world")
	if err := os.WriteFile(world, []byte("gpu GPU-a NVIDIA_H200 0 1000 0 0\ngpu GPU-b NVIDIA_H200 1 1000 0 0\nmig 1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(gputest.EnvWorld, world)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(library))
	in := fake(t)
	in.find = func(string) string { return os.Args[0] }
	in.gpuList = readGPUs
	files(t, in, card)
	files(t, in, map[string]string{"/proc/driver/nvidia/version": "570.1", "/dev/nvidia0": "", "/dev/nvidia1": ""})
	node(t, in, "shim = \"/bin/sh\"\ninit = \"/bin/sh\"\n")
	expect(t, in, "nvml", ok, "driver 570.1, 2 GPUs", "")
	expect(t, in, "GPU-a", ok, "NVIDIA H200", "")
	expect(t, in, "GPU-b", bad, "MIG is enabled", "nvidia-smi -i GPU-b -mig 0")
	expect(t, in, "persistence", note, "off for 2 GPUs", "")
	t.Setenv("LD_LIBRARY_PATH", t.TempDir())
	if _, err := os.Stat("/proc/driver/nvidia/version"); err != nil {
		expect(t, in, "nvml", bad, "libnvidia-ml.so.1 is not installed on this machine", "install")
	}
}

// TestANewMachine notices a warning where all is well, and roles that are made up.
func TestANewMachine(t *testing.T) {
	in := fake(t)
	in.readSettings(controldFile, nodedFile)
	r := in.report(t.Context())
	if r.Worst != note || len(r.Roles) != 0 {
		for _, f := range r.Items {
			t.Log(f.Level, f.Check, f.Text)
		}
		t.Errorf("got %v and roles %v", r.Worst, r.Roles)
	}
}

// noUserNamespaces is the kernel of a machine whose limit of user namespaces is 0.
func noUserNamespaces(flags uintptr) error {
	if flags&unix.CLONE_NEWUSER != 0 {
		return unix.ENOSPC
	}
	return nil
}

// TestSystem notices each thing that the kernel may lack and that is not found.
func TestSystem(t *testing.T) {
	refused := func() error { return unix.EPERM }
	for _, c := range []struct {
		change    func(*inspection)
		check     string
		want      level
		text, fix string
	}{
		{func(in *inspection) { in.release = func() (string, error) { return "4.18.0", nil } }, "kernel", bad,
			"older than 5.10", "5.10 or newer"},
		{func(in *inspection) {
			in.cgroup = func(root string) error { return errors.New(root + " is read-only") }
		},
			"cgroups", bad, "/rota/n1 is read-only", "Delegate=yes"},
		{func(in *inspection) { in.uid = 1001 }, "cgroups", note, "only root", "as root"},
		{func(in *inspection) { in.uid = 1001; os.RemoveAll(in.path("/sys/fs/cgroup")) }, "cgroups", bad,
			"no cgroups are mounted",
			"mount"},
		{func(in *inspection) { in.clone = func(uintptr) error { return unix.EPERM } }, "namespaces", bad,
			"pid, mount and ipc", "--privileged"},
		{func(in *inspection) { in.clone = noUserNamespaces }, "user namespaces", note, "Rota itself does not need them", ""},
		{func(in *inspection) { files(t, in, map[string]string{"/proc/self/status": "Name:\trota\n"}) }, "seccomp", bad,
			"no filters", "CONFIG_SECCOMP"},
		{func(in *inspection) {
			files(t, in, map[string]string{"/proc/sys/kernel/seccomp/actions_avail": "kill allow"})
		}, "seccomp", bad, "kill allow", "CONFIG_SECCOMP_FILTER"},
		{func(in *inspection) { in.keyring = refused }, "keyrings", bad, "BOOT_FAIL", "keyctl"},
		{func(in *inspection) { in.keyring = func() error { return unix.EDQUOT } }, "keyrings", warn, "quota", "maxkeys"},
		{func(in *inspection) { in.keyring = func() error { return unix.ENOSYS } }, "keyrings", ok, "does not need them", ""},
		{func(in *inspection) { files(t, in, map[string]string{"/sys/fs/selinux/enforce": "1"}) }, "selinux", note,
			"enforcing", "ausearch"},
		{func(in *inspection) {
			files(t, in, map[string]string{"/proc/self/mountinfo": "22 1 0:4 / /proc rw - proc proc rw,hidepid=2\n"})
		}, "hidepid", note, "hides", ""},
		{func(in *inspection) {
			files(t, in, map[string]string{"/proc/swaps": "Filename\n/dev/sda2 partition 1 0 -2\n"})
		},
			"swap", note, "1 swap area", "swapoff"},
		{func(in *inspection) { files(t, in, map[string]string{"/proc/77/comm": "slurmd\n"}) }, "slurm", note,
			"the same cores and GPUs", "drain"},
	} {
		in := fake(t)
		c.change(in)
		expect(t, in, c.check, c.want, c.text, c.fix)
	}
}

// TestControllersNeedNoContainers notices requirements of nodes that are asked of a controller.
func TestControllersNeedNoContainers(t *testing.T) {
	in := fake(t)
	in.release = func() (string, error) { return "4.18.0", nil }
	in.cgroup = func(string) error { return errors.New("no cgroups") }
	in.keyring = func() error { return unix.EPERM }
	in.find = func(string) string { return "/bin/sh" }
	controller(t, in, "name = \"c1\"\n")
	for _, f := range in.report(t.Context()).Items {
		if f.Subject == "system" && f.Level > note {
			t.Errorf("%+v", f)
		}
	}
}

// TestConfiguration notices a mistake without its line, and a key that is passed over.
func TestConfiguration(t *testing.T) {
	in := fake(t)
	node(t, in, "name = \"n1\"\ncoers = 4\n")
	expect(t, in, "file", bad, "noded.hcl:2", "the daemon does not start")
	for _, f := range in.report(t.Context()).Items {
		if f.Check == "data directory" || f.Check == "gossip" {
			t.Errorf("a setting that was not read is checked: %+v", f)
		}
	}
	in = fake(t)
	controller(t, in, "name = \"c1\"\n\nqueeu \"x\" {}\n")
	expect(t, in, "file", bad, "controld.hcl:3", "correct the file")
	in = fake(t)
	controller(t, in, "http = \"here\"\n")
	expect(t, in, "http", bad, `"here"`, "host:port")
	in = fake(t)
	node(t, in, "name = \"n1\"\nallow_user_namespaces = true\n")
	expect(t, in, "file", ok, "no unknown", "")
	in.clone = noUserNamespaces
	expect(t, in, "user namespaces", warn, "allow_user_namespaces is set", "max_user_namespaces")
	in = fake(t)
	node(t, in, "name = \"n1\"\ncriu = true\ncriu_program = \"/opt/criu\"\n")
	expect(t, in, "criu", ok, "CRIU 4.3.1", "")
	in.criu = func(_ context.Context, path string) (string, string, error) {
		return "", "", errors.New(path + " is none")
	}
	expect(t, in, "criu", warn, "/opt/criu is none", "criu_program")
	in = fake(t)
	dataDirectory(t, in, nodedData)
	in.readSettings(controldFile, nodedFile)
	expect(t, in, "file", note, "the defaults are checked", "--noded-config")
	in = fake(t)
	node(t, in, "login = true\n")
	if roles := in.settings.roles(); len(roles) != 1 || roles[0] != "login" {
		t.Errorf("roles %v", roles)
	}
}

// TestPrograms notices a node without its shim, and a shim where the daemon does not look.
func TestPrograms(t *testing.T) {
	in := fake(t)
	node(t, in, "")
	expect(t, in, noded, bad, "neither beside", "install")
	dir := t.TempDir()
	for _, name := range []string{noded, "rota-init"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in.find = func(name string) string { return filepath.Join(dir, name) }
	expect(t, in, noded, ok, dir, "")
	expect(t, in, "rota-init", ok, dir, "")
	node(t, in, "shim = \""+dir+"/none\"\n")
	expect(t, in, "rota-shim", bad, dir+"/none is not a program", "/usr/libexec/rota")
}

// TestDirectories notices a data directory that others may enter or that is not on a disk.
func TestDirectories(t *testing.T) {
	in := fake(t)
	controller(t, in, "")
	expect(t, in, "file system", ok, "/dev/sda1", "")
	expect(t, in, "fsync", ok, "p99 2.00 ms", "")
	if os.Getuid() == 0 {
		expect(t, in, "data directory", ok, "uid 0 alone", "")
	}
	chmod := func(mode os.FileMode) {
		if err := os.Chmod(in.path(controldData), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0o755)
	expect(t, in, "data directory", warn, "0755", "chmod 0700")
	chmod(0o777)
	expect(t, in, "data directory", bad, "0777", "chmod go-w")
	for line, want := range map[string]string{
		"30 22 0:30 / /var/lib rw - tmpfs none rw\n":                     "empty after a reboot",
		"30 22 0:30 / /var/lib/rota rw - nfs4 files:/rota rw,vers=4.2\n": "nfs4 of files:/rota",
	} {
		files(t, in, map[string]string{"/proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + line})
		expect(t, in, "file system", bad, want, "disk")
	}
	for p99, want := range map[time.Duration]level{11 * time.Millisecond: warn, 101 * time.Millisecond: bad} {
		in.syncs = func(string, int, time.Duration) ([]time.Duration, error) { return []time.Duration{1, p99}, nil }
		expect(t, in, "fsync", want, "p99 "+human(p99)+"; every submission", "SSD")
	}
	in.quick = true
	in.syncs = func(string, int, time.Duration) ([]time.Duration, error) {
		t.Error("--quick measures the disk")
		return nil, nil
	}
	in.report(t.Context())
	in.statfs = func(string) (unix.Statfs_t, error) {
		return unix.Statfs_t{Bsize: 4096, Bavail: 1 << 18, Files: 100, Ffree: 9}, nil
	}
	expect(t, in, "space", bad, "1G free, 9 inodes", "free some space")
	in.statfs = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{Bsize: 4096, Bavail: 1 << 18}, nil }
	expect(t, in, "space", warn, "1G free", "free some space")
	if err := os.Remove(in.path(controldData)); err != nil {
		t.Fatal(err)
	}
	expect(t, in, "data directory", warn, "does not exist yet", "join")
}

// TestSharedPaths notices a path that is missing, local, or shared by other nodes only.
func TestSharedPaths(t *testing.T) {
	in := fake(t)
	node(t, in, "shared_path = [\"/work\"]\n")
	expect(t, in, "shared path", bad, "/work is not a directory", "mount it")
	dataDirectory(t, in, "/work")
	expect(t, in, "shared path", note, "/dev/sda1", "")
	files(t, in, map[string]string{"/proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		"30 22 0:30 / /work rw - lustre mgs@tcp:/work rw\n"})
	expect(t, in, "shared path", ok, "lustre of mgs@tcp:/work", "")
	in.cluster.nodes = []api.Node{{Name: "n1", SharedPaths: []string{"/work"}},
		{Name: "n2", SharedPaths: []string{"/work", "/scratch"}}}
	expect(t, in, "shared path", warn, "node n2 shares [/scratch]", "shared_path")
}

// TestHome notices a directory of the user that jobs do not see, or cannot write to.
func TestHome(t *testing.T) {
	in := fake(t)
	node(t, in, "")
	in.uid, in.home = 1001, "/home/ada"
	expect(t, in, "home", note, "not below a shared directory", "submit")
	dataDirectory(t, in, "/home")
	expect(t, in, "home", warn, "may not write to /home/ada", "chown") // it is not there
	dataDirectory(t, in, "/home/ada")
	expect(t, in, "home", ok, "/home/ada is shared", "")
}

// card puts a GPU of NVIDIA on the bus.
var card = map[string]string{"/sys/bus/pci/devices/0000:10:00.0/vendor": "0x10de\n",
	"/sys/bus/pci/devices/0000:10:00.0/class": "0x030200\n"}

// TestGPUs notices a GPU that is promised and missing, and each state of the driver.
func TestGPUs(t *testing.T) {
	in := fake(t)
	expect(t, in, "none", note, "this machine has no NVIDIA GPU", "")
	node(t, in, "label = { gpus = \"8\" }\n")
	expect(t, in, "missing", bad, "label gpus=8", "lspci")
	node(t, in, "sim_gpus = 2\n")
	expect(t, in, "simulated", note, "2 simulated", "sim_gpus")
	node(t, in, "")
	in.cluster.nodes = []api.Node{{Name: "n1", GPUs: make([]api.NodeGPU, 4)}}
	expect(t, in, "missing", bad, "the cluster knows 4 GPUs of node n1", "lspci")
	files(t, in, card)
	expect(t, in, "driver", bad, "not loaded", "modprobe nvidia")
	files(t, in, map[string]string{"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX  570.1\nGCC\n",
		"/dev/nvidia0": "", "/dev/nvidiactl": ""})
	expect(t, in, "driver", ok, "NVIDIA UNIX 570.1", "")
	expect(t, in, "device nodes", bad, "/dev/nvidia-uvm", "nvidia-modprobe")
	expect(t, in, "nvml", note, "not installed", "rota-noded")
	in.find = func(name string) string { return "/usr/bin/" + name }
	expect(t, in, "device nodes", ok, "for the first job", "")
	expect(t, in, "nvml", bad, "no library", "libnvidia-compute")
	in.gpuList = func(context.Context, string) (gpu.Inventory, error) {
		return gpu.Inventory{}, &gpu.HungError{Call: "inventory", After: time.Second}
	}
	expect(t, in, "nvml", bad, "did not answer", "reboot")
	in.gpuList = func(context.Context, string) (gpu.Inventory, error) {
		return gpu.Inventory{}, errors.New("start NVML: version mismatch")
	}
	expect(t, in, "nvml", bad, "version mismatch", "nvidia-smi")
	devices := []gpu.Device{{GPU: model.GPU{UUID: "GPU-1", Model: "H200", Memory: 80 << 30, Healthy: true},
		Persistence: "off"}}
	in.gpuList = func(_ context.Context, program string) (gpu.Inventory, error) {
		if program != "/usr/bin/rota-noded" {
			t.Errorf("asked through %s", program)
		}
		return gpu.Inventory{Driver: "570.1", Devices: devices}, nil
	}
	expect(t, in, "nvml", ok, "driver 570.1, 1 GPU", "")
	expect(t, in, "GPU-1", ok, "H200, 80G", "")
	expect(t, in, "persistence", note, "off for 1 GPU", "nvidia-persistenced")
	devices[0].Healthy, devices[0].Problem = false, "MIG is enabled"
	expect(t, in, "GPU-1", bad, "MIG is enabled", "-mig 0")
	devices[0].Problem = "the driver reported XID 79"
	expect(t, in, "GPU-1", bad, "XID 79", "dmesg")
	files(t, in, map[string]string{"/dev/nvidia1": ""})
	expect(t, in, "nvml", bad, "counts 1 GPU, but the machine has 2", "dmesg")
}

// TestClock notices a clock that no program keeps right, or that differs from the controllers'.
func TestClock(t *testing.T) {
	in := fake(t)
	expect(t, in, "synchronised", ok, "5.00 ms", "")
	in.timex = func() (int, unix.Timex, error) { return clockError, unix.Timex{}, nil }
	expect(t, in, "synchronised", warn, "no time daemon", "chronyd")
	in.timex = func() (int, unix.Timex, error) { return 0, unix.Timex{Status: unix.STA_UNSYNC}, nil }
	expect(t, in, "synchronised", warn, "no time daemon", "chronyd")
	for ahead, want := range map[time.Duration]level{0: ok, time.Second: ok, -time.Second: ok, 3 * time.Second: warn,
		-3 * time.Second: warn, 25 * time.Hour: bad, -25 * time.Hour: bad} {
		in.cluster.reading = &reading{addr: "c1", sent: noon, received: noon.Add(100 * time.Millisecond),
			date: noon.Add(ahead)}
		text := "c1"
		if ahead < -time.Second {
			text = "behind"
		} else if ahead > time.Second {
			text = "ahead"
		}
		expect(t, in, "offset", want, text, "")
	}
}

// TestHostName notices a name that leads elsewhere.
func TestHostName(t *testing.T) {
	in := fake(t)
	expect(t, in, "host name", ok, "n1 resolves to 192.0.2.1", "")
	for addr, want := range map[string]level{"127.0.1.1": note, "::1": note, "198.51.100.9": warn} {
		in.lookup = func(context.Context, string) ([]string, error) { return []string{addr}, nil }
		expect(t, in, "host name", want, addr, "/etc/hosts")
	}
	in.lookup = func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
	expect(t, in, "host name", warn, "does not resolve", "/etc/hosts")
}

// TestPorts notices a port that another program has, and takes the daemon's own for granted.
func TestPorts(t *testing.T) {
	in := fake(t)
	controller(t, in, "http = \"192.0.2.1:7070\"\n")
	expect(t, in, "http", ok, "tcp 192.0.2.1:7070 of rota-controld is free", "")
	in.listen = func(string, string) error {
		return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	expect(t, in, "http", warn, "is in use", "as root")
	files(t, in, map[string]string{"/proc/77/comm": "nginx\n", "/proc/net/tcp": "  sl  local_address\n" +
		"   0: 010002C0:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"})
	if err := os.MkdirAll(in.path("/proc/77/fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("socket:[4711]", in.path("/proc/77/fd/5")); err != nil {
		t.Fatal(err)
	}
	expect(t, in, "http", bad, "held by nginx", "another port")
	files(t, in, map[string]string{"/proc/77/comm": "rota-noded\n"})
	expect(t, in, "http", bad, "held by rota-noded", "a different port")
	files(t, in, map[string]string{"/proc/77/comm": "rota-controld\n"})
	expect(t, in, "http", ok, "held by it", "")
	node(t, in, "")
	expect(t, in, "gossip", bad, "gossip of rota-controld and gossip of rota-noded both use 127.0.0.1:7072",
		"a different port")
	in.listen = func(string, string) error { return syscall.EADDRNOTAVAIL }
	expect(t, in, "http", bad, "no interface", "address of this machine")
}

// TestPeers notices a machine that cannot be reached, and a daemon that others cannot reach.
func TestPeers(t *testing.T) {
	in := fake(t)
	node(t, in, "join = [\"c1:7072\"]\n")
	expect(t, in, "peer", ok, "c1:7072 takes connections", "")
	expect(t, in, "gossip", bad, "127.0.0.1:7072 only", "interface")
	in.dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	expect(t, in, "peer", bad, "c1:7072 accepts no connection", "firewall")
	in.lookup = func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
	expect(t, in, "peer", bad, "c1 does not resolve", "DNS")
	expect(t, in, "controllers", bad, "no controller reachable", "start")
	in.cluster = cluster{name: "x", leader: "", controllers: []api.Controller{{Name: "c2"}}}
	expect(t, in, "controllers", bad, "no leader", "a majority of the controllers")
	expect(t, in, "c2", warn, "the other controllers cannot reach", "rota cluster remove c2")
	in.cluster = cluster{name: "x", leader: "c1", controllers: []api.Controller{{Name: "c1", HTTP: "192.0.2.9:7070"}}}
	expect(t, in, "controllers", ok, "1 controller, leader c1", "")
	expect(t, in, "c1", warn, "192.0.2.9", "")
}

// TestUsers notices numbers that mean different users.
func TestUsers(t *testing.T) {
	for _, c := range []struct {
		user string
		uid  uint32
		want level
		text string
	}{
		{"ada", 1001, ok, "1 user with jobs"},
		{"ada", 1002, bad, "user ada has number 1001 here, but its jobs have 1002"},
		{"bob", 1001, bad, "number 1001 is user ada here, but jobs with this number belong to user bob"},
		{"bob", 1002, warn, "is unknown on this machine"},
	} {
		in := fake(t)
		node(t, in, "")
		in.cluster.jobs = []api.Job{{User: c.user, UID: c.uid}}
		expect(t, in, "numbers", c.want, c.text, "")
	}
	in := fake(t)
	one, same := digest(ordinary(in.accounts(t.Context()))), digest([]account{{"ada", 1001, 1001}})
	if one != same || one == digest([]account{{"ada", 1001, 1002}}) {
		t.Errorf("digests %s and %s", one, same)
	}
	in.output = func(context.Context, string, ...string) ([]byte, error) {
		return []byte("b:x:1002:1\na:x:1001:1\nroot:x:0:0\nnobody:x:65534:1\nbroken\n"), nil
	}
	if list := ordinary(in.accounts(t.Context())); len(list) != 2 || list[0].Name != "a" {
		t.Errorf("got %v", list)
	}
}

// TestCertificates notices one that is missing, ends soon, or is of another cluster.
func TestCertificates(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: only root reads certificates")
	}
	in := fake(t)
	controller(t, in, "")
	expect(t, in, "certificate", bad, "not a member of a cluster", "join-token")
	id, err := pki.Init(pki.Dir(in.path(controldData)), "c1")
	if err != nil {
		t.Fatal(err)
	}
	in.now = time.Now
	expect(t, in, "certificate", ok, "controller c1", "")
	in.cluster = cluster{id: id}
	expect(t, in, "certificate", ok, "controller c1", "")
	in.cluster.id = "other"
	expect(t, in, "cluster", bad, id, "ROTA_ADDR")
	in.now = func() time.Time { return time.Now().Add(25 * 24 * time.Hour) }
	expect(t, in, "certificate", warn, "should have been renewed", "log")
	in.now = func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }
	expect(t, in, "certificate", bad, "ended at", "new token")
	node(t, in, "")
	if _, err := pki.Init(pki.Dir(in.path(nodedData)), "n1"); err != nil {
		t.Fatal(err)
	}
	expect(t, in, "cluster", bad, "different clusters", "join the other's")
	in.uid = 1001
	expect(t, in, "certificate", note, "only root", "as root")
}

// TestReport notices a finding that is printed without its fix, and a wrong exit code.
func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport("n1", []string{"node"}, []finding{{Subject: "system", Check: "kernel", Level: ok, Text: "Linux 6.1"},
		{Subject: "system", Check: "keyrings", Level: warn, Text: "two\nlines", Fix: "raise it"}})
	if err := r.write(&out, table.Screen{}); err != nil {
		t.Fatal(err)
	}
	want := `n1 (node)

system
  ok    kernel           Linux 6.1
  warn  keyrings         two
                         lines
                         fix: raise it

0 things keep Rota from working, 1 warning, 1 ok
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
	for l, code := range map[level]int{ok: 0, note: 0, warn: 1, bad: 7} {
		if l.exitCode() != code {
			t.Errorf("%v: exit code %d, want %d", l, l.exitCode(), code)
		}
	}
}

// TestThisMachine runs the command as it is. Its findings depend on the machine. There must be
// findings, and the exit code must follow the worst.
func TestThisMachine(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab", Leader: "c1",
		Controllers: []api.Controller{{Name: "c1", HTTP: a.URL}}})
	a.Give("GET /v1/nodes", api.List[api.Node]{})
	a.Give("GET /v1/jobs", api.List[api.Job]{Items: []api.Job{{User: "root", UID: 4711}}})
	a.Give("GET /v1/history", api.List[api.Job]{})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("doctor", "--quick", "-o", "json")
	var r struct {
		Worst string
		Items []struct{ Subject, Check, Level, Text, Fix string }
	}
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	found := map[string]string{}
	for _, f := range r.Items {
		found[f.Check] += f.Level + " " + f.Text + "\n"
		if (f.Level == "warn" || f.Level == "bad") && f.Fix == "" {
			t.Errorf("no fix: %+v", f)
		}
	}
	for check, text := range map[string]string{"kernel": "ok Linux", "seccomp": " ", "controllers": "ok cluster lab",
		"numbers": "bad user root has number 0 here, but its jobs have 4711", "offset": "controller that answers",
		"host name": " "} {
		if !strings.Contains(found[check], text) {
			t.Errorf("%s: %q", check, found[check])
		}
	}
	if got.Code != exit.Broken || r.Worst != "bad" {
		t.Errorf("exit code %d, worst %s", got.Code, r.Worst)
	}
	if got := s.Run("doctor", "--quick"); !strings.Contains(got.Stdout, "fix: give the user the same number") ||
		got.Code != exit.Broken {
		t.Errorf("%+v", got)
	}
	if got := s.Run("doctor", "--users"); got.Code != 0 || !strings.Contains(got.Stdout, "digest ") {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"doctor x", "doctor --noded-config /none.hcl", "doctor -o yaml"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestMachine notices functions of the real machine that do not do what they say.
func TestMachine(t *testing.T) {
	m := machine()
	dir := t.TempDir()
	took, err := m.syncs(dir, 5, time.Minute)
	if err != nil || len(took) != 5 || took[0] <= 0 || took[0] > took[4] {
		t.Errorf("got %v, %v", took, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, network := range []string{"tcp", "udp"} {
		addr, done := taken(t, network)
		if err := m.listen(network, addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s %s is taken: %v", network, addr, err)
		}
		in := &inspection{system: m}
		self, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		if holder := in.holder(network, addr); holder != strings.TrimSpace(string(self)) {
			t.Errorf("%s %s is held by %q", network, addr, holder)
		}
		done()
		if err := m.listen(network, addr); err != nil {
			t.Errorf("%s %s is free: %v", network, addr, err)
		}
	}
	if m.mounts() == nil {
		t.Error("nothing is mounted")
	}
	if ids := m.processes("rota-" + strconv.Itoa(os.Getpid())); len(ids) > 0 {
		t.Errorf("processes %v", ids)
	}
}

// taken returns an address that this process listens on, and how to free it.
func taken(t *testing.T, network string) (addr string, done func()) {
	t.Helper()
	if network == "udp" {
		l, err := net.ListenPacket(network, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l.LocalAddr().String(), func() { l.Close() }
	}
	l, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), func() { l.Close() }
}

// TestUnescape notices a mount point with a space that is not found.
func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `/a`: "/a", `\134x\011`: "\\x\t", `/a\9`: `/a9`} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
