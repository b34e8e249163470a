package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpu/gputest"
)

// TestJobsSeeTheirRealGPUs runs jobs on the GPUs of this machine. It notices a job that sees a GPU that
// it does not have, by its file below /dev, by opening it or by NVML.
func TestJobsSeeTheirRealGPUs(t *testing.T) {
	if files, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(files) == 0 {
		t.Skip("needs an NVIDIA GPU: there is no /dev/nvidia0 on this machine")
	}
	jobsSeeTheirGPUs(t, "")
}

// envDevices marks the process that has device files of its own, by the folder of its library.
const envDevices = "ROTA_TEST_DEVICES"

// TestJobsSeeTheirGPUs is the same with the library that stands in for NVML, which sees the GPUs whose
// files it may open. The files have the numbers of NVIDIA's driver and no driver behind them: containers
// and device cgroups do not mind. They are made in a mount namespace, in which the test runs itself.
func TestJobsSeeTheirGPUs(t *testing.T) {
	if dir := os.Getenv(envDevices); dir != "" {
		privateDevices(t, dir, "nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm")
		jobsSeeTheirGPUs(t, dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes device files")
	}
	if files, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(files) > 0 {
		t.Skip("this machine has real GPUs, with whose files those of the test would be mistaken")
	}
	dir := filepath.Dir(gputest.Build(t, false))
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil { // jobs read the library
			t.Fatal(err)
		}
	}
	world := "gpu GPU-a Test 0 1000 0 0\ngpu GPU-b Test 1 1000 0 0\ngpu GPU-c Test 2 1000 0 0\nfiles\n"
	if err := os.WriteFile(filepath.Join(dir, "world"), []byte(world), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJobsSeeTheirGPUs$", "-test.v")
	cmd.Env = append(os.Environ(), envDevices+"="+dir, envBin+"="+bin, gputest.EnvWorld+"="+filepath.Join(dir, "world"),
		"LD_LIBRARY_PATH="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestJobsSeeTheirGPUs") {
		t.Errorf("%v\n%s", err, out)
	}
}

// privateDevices gives this mount namespace a /dev of its own, with the entries of the machine's and
// further character devices of NVIDIA's number.
func privateDevices(t *testing.T, dir string, names ...string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, "dev")
	must(os.Mkdir(old, 0o755))
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("/dev", old, "", unix.MS_BIND|unix.MS_REC, ""))
	must(unix.Mount("none", "/dev", "tmpfs", 0, "mode=755"))
	entries, err := os.ReadDir(old)
	must(err)
	for _, e := range entries {
		from, to := filepath.Join(old, e.Name()), filepath.Join("/dev", e.Name())
		var st unix.Stat_t
		must(unix.Lstat(from, &st))
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			must(errors.Join(err, os.Symlink(target, to)))
		case e.IsDir():
			must(os.Mkdir(to, 0o755))
			must(unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""))
		case e.Type()&fs.ModeDevice != 0:
			must(unix.Mknod(to, st.Mode, int(st.Rdev)))
			must(os.Chmod(to, os.FileMode(st.Mode&0o777)))
		}
	}
	minors := map[string]uint32{"nvidiactl": 255, "nvidia-uvm": 254}
	for i, name := range names {
		minor, special := minors[name]
		if !special {
			minor = uint32(i)
		}
		path := filepath.Join("/dev", name)
		must(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor))))
		must(os.Chmod(path, 0o666))
	}
	t.Cleanup(func() { _ = unix.Unmount(old, unix.MNT_DETACH) }) // the namespace ends with the process
}

// jobsSeeTheirGPUs runs a job without GPUs, and then as many with one GPU each as there are GPUs, at the
// same time. library is the folder of the library that stands in for NVML, "" for the machine's own NVML.
func jobsSeeTheirGPUs(t *testing.T, library string) {
	all, err := filepath.Glob("/dev/nvidia[0-9]*")
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, Cores: len(all) + 1})
	g := &gpuJobs{world: w, dir: w.scratch("gpus"), library: inContainer(w, library), gpus: len(all)}
	helper, err := os.ReadFile(filepath.Join(bin, "rota-noded"))
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.shared, "bin", "rota-noded"), helper, 0o755))
	g.check("none", g.submit("none", 0), 0)
	ids := map[string]string{}
	for n := range all {
		name := fmt.Sprintf("gpu%d", n)
		ids[name] = g.submit(name, 1)
	}
	granted := map[string]bool{}
	for name, id := range ids {
		for _, uuid := range g.check(name, id, 1) {
			granted[uuid] = true
		}
	}
	if len(granted) != len(all) {
		t.Errorf("of %d GPUs jobs at the same time had %v", len(all), granted)
	}
}

// gpuJobs are jobs that write down what they see.
type gpuJobs struct {
	*world
	dir     string // for a folder of each job
	library string // LD_LIBRARY_PATH of the jobs
	gpus    int    // of the machine
}

// submit submits a job that writes down what it sees. One with a GPU keeps it until as many run as there
// are GPUs.
func (g *gpuJobs) submit(name string, gpus int) string {
	g.t.Helper()
	return g.world.submit(fmt.Sprintf(`job %[1]q {
  task "t" {
    resources {
      gpus   = %[2]d
      cores  = 1
      memory = "128MiB"
    }
    script = <<-EOS
      #!/bin/sh
      mkdir %[3]s/%[1]s && cd %[3]s/%[1]s || exit 1
      ls /dev | grep '^nvidia[0-9]' > files
      echo "$ROTA_GPU_UUIDS" | tr ',' '\n' | grep . > granted
      mknod /tmp/other c 195 0 2> refused && echo made > made
      export LD_LIBRARY_PATH=%[4]s %[5]s=%[4]s/world
      echo '{"call":"inventory"}' | %[6]s/bin/rota-noded nvml-helper > nvml || exit 1
      [ %[2]d = 0 ] || until [ $(ls -d %[3]s/gpu*/nvml | wc -l) = %[7]d ]; do sleep 0.1; done
    EOS
  }
}`, name, gpus, g.dir, g.library, gputest.EnvWorld, g.shared, g.gpus))
}

// check waits for the end of a job and checks that it has seen exactly its GPUs, whose UUIDs it returns.
func (g *gpuJobs) check(name, id string, gpus int) []string {
	g.t.Helper()
	if j := g.ends(id); j.Code != "CD" {
		g.t.Fatalf("job %s: %s %+v\n%s", name, j.Code, j.Reason, g.ok("logs", id))
	}
	words := func(file string) []string {
		b, err := os.ReadFile(filepath.Join(g.dir, name, file))
		g.must(err)
		return strings.Fields(string(b))
	}
	files, granted := words("files"), words("granted")
	var answer struct{ Inventory gpu.Inventory }
	g.must(json.Unmarshal([]byte(strings.Join(words("nvml"), " ")), &answer))
	seen := answer.Inventory
	if len(files) != gpus || len(granted) != gpus || len(seen.Devices) != gpus {
		g.t.Errorf("job %s with %d GPUs has %v, and sees %v and %+v", name, gpus, granted, files, seen)
	}
	for _, d := range seen.Devices {
		if !slices.Contains(granted, d.UUID) || !slices.Contains(files, fmt.Sprintf("nvidia%d", d.Minor)) || !d.Healthy {
			g.t.Errorf("job %s has %v, and sees %v and %+v", name, granted, files, d)
		}
	}
	if _, err := os.Stat(filepath.Join(g.dir, name, "made")); err == nil {
		g.t.Errorf("job %s made the file of a GPU", name)
	}
	return granted
}

// inContainer copies the folder of a library to where jobs see it, and returns the value of
// LD_LIBRARY_PATH for them.
func inContainer(w *world, library string) string {
	if library == "" {
		return os.Getenv("LD_LIBRARY_PATH") // the driver's libraries may lie below /usr/local
	}
	to := filepath.Join(w.shared, "lib")
	w.must(os.Mkdir(to, 0o755))
	for _, name := range []string{"libnvidia-ml.so.1", "world"} {
		b, err := os.ReadFile(filepath.Join(library, name))
		w.must(err)
		w.must(os.WriteFile(filepath.Join(to, name), b, 0o755))
	}
	return to
}
