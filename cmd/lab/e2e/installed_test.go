package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
)

// Builds of the packages that tests install, as `make test-installed` makes them below the
// directory that the variable names.
const (
	packagesVariable = "ROTA_TEST_PACKAGES"
	firstBuild       = "first"
	nextBuild        = "next"  // of the same data format
	newerBuild       = "newer" // of a later one
)

// installPatience is how long a test waits for what must happen on a machine.
const installPatience = 3 * time.Minute

// site is a room of machines on which packages are installed.
type site struct {
	t        *testing.T
	room     *lab.Room
	packages string
}

// newSite boots machines for a test that installs packages. Their file systems are below a
// directory of the host's disk that is removed afterwards.
func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	packages := os.Getenv(packagesVariable)
	if packages == "" {
		t.Skipf("boots machines and installs packages: run make test-installed, which sets %s", packagesVariable)
	}
	base := filepath.Join(packages, "debian")
	if err := lab.DebianRoot(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(packages, "machines-")
	if err != nil {
		t.Fatal(err)
	}
	room, err := lab.OpenRoom(t.Context(), base, dir, names...)
	t.Cleanup(func() {
		if err := room.Close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, room: room, packages: packages}
	for _, m := range room.Machines {
		s.copyPackages(m, firstBuild, "root")
	}
	return s
}

// copyPackages puts the packages of a build into a directory of a machine.
func (s *site) copyPackages(m *lab.Machine, build, dir string) {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.packages, build, "*_amd64.deb"))
	if err != nil || len(found) == 0 {
		s.t.Fatalf("no packages of the %s build below %s", build, s.packages)
	}
	if err := os.MkdirAll(filepath.Join(m.Root, dir), 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, file := range found {
		b, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.Root, dir, filepath.Base(file)), b, 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) machine(name string) *lab.Machine {
	s.t.Helper()
	for _, m := range s.room.Machines {
		if m.Name == name {
			return m
		}
	}
	s.t.Fatalf("no machine %s", name)
	return nil
}

// run runs a script on machines, one after the other, and returns what the last one printed.
func (s *site) run(names, script string) string {
	s.t.Helper()
	var out string
	for name := range strings.SplitSeq(names, ",") {
		var err error
		if out, err = s.machine(name).Run(s.t.Context(), script); err != nil {
			s.t.Fatal(err, s.journal(name))
		}
	}
	return out
}

// refused runs a script that must fail, and returns what it printed.
func (s *site) refused(name, script string) string {
	s.t.Helper()
	out, err := s.machine(name).Run(s.t.Context(), script)
	if err == nil {
		s.t.Fatalf("on %s: %s: it succeeded: %s", name, script, out)
	}
	return out
}

// journal is the end of what a machine's daemons have said.
func (s *site) journal(name string) string {
	out, _ := s.machine(name).Run(context.WithoutCancel(s.t.Context()),
		"journalctl --no-pager -q -n 40 -u rota-controld -u rota-noded -u rota-jobs")
	return "\n" + out
}

// until repeats a script until its output matches a pattern, and returns it.
func (s *site) until(name, script, pattern string) string {
	s.t.Helper()
	wanted := regexp.MustCompile(pattern)
	var out string
	for begin := time.Now(); time.Since(begin) < installPatience; time.Sleep(100 * time.Millisecond) {
		var err error
		if out, err = s.machine(name).Run(s.t.Context(), script); err == nil && wanted.MatchString(out) {
			return out
		}
	}
	s.t.Fatalf("on %s: %s: no %q after %v: %s%s", name, script, pattern, installPatience, out, s.journal(name))
	return ""
}

// cluster installs and joins everything: controllers on the first machines, nodes on the others.
// Nothing is edited; the address that is joined is the first machine's name.
func (s *site) cluster(controllers, nodes []string) {
	s.t.Helper()
	head := controllers[0]
	s.run(strings.Join(append(append([]string{}, controllers...), nodes...), ","),
		"useradd --uid 2001 --create-home ann")
	for _, name := range controllers {
		s.run(name, "apt-get install -y /root/rota_*.deb /root/rota-controld_*.deb")
	}
	s.run(head, "rota-controld init; systemctl start rota-controld")
	for _, name := range controllers[1:] {
		s.run(name, fmt.Sprintf("rota-controld join %s:7070 --token %s; systemctl start rota-controld", head,
			s.token(head, "controller")))
	}
	for _, name := range nodes {
		s.run(name, "apt-get install -y /root/rota_*.deb /root/rota-noded_*.deb")
		s.run(name, fmt.Sprintf("rota-noded join %s:7070 --token %s; systemctl start rota-noded", head,
			s.token(head, "node")))
	}
	s.until(head, "rota nodes", fmt.Sprintf(`(?s)(\bidle\b.*){%d}`, len(nodes)))
	s.until(head, "rota cluster", `(?s)`+strings.Join(controllers, `\b.*\b`))
}

// token is a join token for one machine.
func (s *site) token(on, role string) string {
	s.t.Helper()
	return strings.TrimSpace(s.until(on, "rota cluster join-token --role "+role+" 2>/dev/null", `\S`))
}

// TestPackagesOnMachines lives the life of packages: installation, a gang, an upgrade and restarts
// under a running job, a downgrade that is refused, removal and purge.
func TestPackagesOnMachines(t *testing.T) {
	controllers, nodes := []string{"c1", "c2", "c3"}, []string{"n1", "n2"}
	s := newSite(t, append(append([]string{}, controllers...), nodes...)...)
	s.cluster(controllers, nodes)
	all := append(append([]string{}, controllers...), nodes...)

	s.run("n1,n2", `cat > /home/ann/gang.hcl <<'END'
job "gang" {
  group "worker" {
    count = 2
    max_workers_per_node = 1
    task "main" {
      command = ["sh", "-c", "echo here is $ROTA_NODE; exec sleep 86400"]
      resources {
        cores = 1
        memory = "64MiB"
      }
    }
  }
}
END
`)
	id := strings.TrimSpace(s.run("n1", "cd /home/ann && sudo -u ann rota submit --parsable gang.hcl"))
	s.until("c2", "rota status "+id, `RUNNING`)
	pids := func() string {
		return s.run("n1", "pgrep -f '[s]leep 86400'") + s.run("n2", "pgrep -f '[s]leep 86400'")
	}
	before := pids()
	stillThere := func(after string) {
		t.Helper()
		if got := pids(); got != before {
			t.Fatalf("after %s the job's processes are %q, not %q", after, got, before)
		}
		s.until("c1", "rota status "+id, `RUNNING`)
	}

	t.Log("every daemon is restarted")
	for _, name := range controllers {
		s.run(name, "systemctl restart rota-controld")
		s.until(name, "rota nodes", `(?s)n1.*n2`)
	}
	for _, name := range nodes {
		s.run(name, "systemctl restart rota-noded; systemctl stop rota-noded; systemctl start rota-noded")
	}
	s.run("n1", "systemctl daemon-reload; systemctl kill -s KILL rota-noded")
	stillThere("restarts")

	t.Log("every package is upgraded")
	for _, name := range all {
		s.copyPackages(s.machine(name), nextBuild, "root/next")
		old := s.run(name, "dpkg-query -W rota")
		s.run(name, `for p in $(dpkg-query -W -f '${Package}\n' 'rota*'); do set -- "$@" /root/next/${p}_*.deb; done
apt-get install -y "$@"`)
		if now := s.run(name, "dpkg-query -W rota"); now == old {
			t.Fatalf("%s still has %s", name, now)
		}
	}
	stillThere("the upgrade")
	for _, name := range all {
		unit := "rota-noded"
		if strings.HasPrefix(name, "c") {
			unit = "rota-controld"
		}
		running := s.until(name, "systemctl show -P MainPID "+unit, `[1-9]`)
		exe := s.run(name, "readlink /proc/"+strings.TrimSpace(running)+"/exe")
		if strings.Contains(exe, "deleted") {
			t.Errorf("%s on %s still runs the old program", unit, name)
		}
	}

	t.Log("a downgrade across data formats is refused")
	s.refusesDowngrade("n2", "rota-noded", "", "newer")
	s.refusesDowngrade("n1", "rota-controld", "rota-controld init", "format")
	stillThere("the refused downgrade")

	t.Log("removal leaves data and logs, purge leaves nothing")
	s.run("n2", "su - ann -c 'rota cancel "+id+"'")
	s.until("n2", "rota status "+id, `CANCELLED`)
	running := strings.TrimSpace(s.run("n2", "su - ann -c 'rota submit --parsable gang.hcl'"))
	s.until("n2", "rota status "+running, `RUNNING`)
	for _, name := range []string{"n2", "c2"} {
		s.removes(name)
	}
}

// refusesDowngrade installs a build of a newer data format, and then the one before it. A controller
// is a new one: it reads no log of another format.
func (s *site) refusesDowngrade(name, program, first, want string) {
	s.t.Helper()
	s.copyPackages(s.machine(name), newerBuild, "root/newer")
	s.run(name, "apt-get install -y /root/newer/rota_*.deb /root/newer/"+program+"_*.deb\n"+first+"\nsystemctl start "+
		program)
	before := s.until(name, "systemctl show -P MainPID "+program, `[1-9]`)
	said := s.refused(name, "apt-get install -y --allow-downgrades /root/next/rota_*.deb /root/next/"+program+"_*.deb")
	for _, want := range []string{program, "is not installed", want} {
		if !strings.Contains(said, want) {
			s.t.Errorf("the refusal does not say %q: %s", want, said)
		}
	}
	if after := s.run(name, "systemctl show -P MainPID "+program); after != before {
		s.t.Errorf("%s was stopped by a downgrade that was refused: %s%s", program, said, s.journal(name))
	}
}

// traces finds what Rota has left on a machine.
const traces = `pgrep -a rota || true
grep rota /proc/self/mounts || true
find /sys/fs/cgroup -name 'rota*' || true
find / -xdev \( -path /proc -o -path /root -o -path /var/lib/dpkg -o -path /var/cache \) -prune -o \
	-name '*rota*' -print | grep -v logrotate | sort`

// kept are what a package that is removed and not purged keeps: data, settings, logs, and Debian's
// notes of which units were enabled.
var kept = []string{"/var/lib/rota", "/etc/rota", "/etc/logrotate.d/rota", "/var/log/", "/etc/systemd/system/",
	"/var/lib/systemd/deb-systemd-helper-"}

// removes removes the packages of a machine, looks for what is left, and purges them.
func (s *site) removes(name string) {
	s.t.Helper()
	s.run(name, "apt-get remove -y 'rota*'")
	for line := range strings.Lines(s.run(name, traces+" || true")) {
		line = strings.TrimSpace(line)
		if !slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			s.t.Errorf("%s has after removal: %s", name, line)
		}
	}
	s.run(name, "test -d /var/lib/rota && test -d /etc/rota")
	s.run(name, "apt-get purge -y 'rota*'")
	if out := s.run(name, traces+" || true"); out != "" {
		s.t.Errorf("%s has after the purge: %s", name, out)
	}
}

// loadOfJobs is how many jobs run on the node while its daemons are restarted.
const loadOfJobs = 200

// TestRestartsUnderLoad restarts and upgrades the daemons of one machine with 200 running jobs, and
// says how long each took. Every job goes on.
func TestRestartsUnderLoad(t *testing.T) {
	s := newSite(t, "head")
	m := s.machine("head")
	begin := time.Now()
	s.run("head", `useradd --uid 2001 --create-home ann
apt-get install -y /root/rota_*.deb /root/rota-controld_*.deb /root/rota-noded_*.deb`)
	t.Logf("installed in %v", took(begin))
	s.run("head", `rota-controld init
echo 'cores = 400
memory = "64GiB"' >> /etc/rota/noded.hcl
systemctl start rota-controld`)
	s.run("head", "rota-noded join head:7070 --token "+s.token("head", "node")+"; systemctl start rota-noded")
	s.until("head", "rota nodes", `\bidle\b`)
	s.run("head", "su - ann -c 'rota run --mem 16MiB true'")
	t.Logf("from the beginning of the installation to the end of the first job: %v", took(begin))

	begin = time.Now()
	s.run("head", fmt.Sprintf(`su - ann -c 'cat > many.hcl <<END
job "many" {
  array { indices = "1-%d" }
  group "worker" {
    task "main" {
      command = ["sleep", "86400"]
      resources {
        cores  = 1
        memory = "16MiB"
      }
    }
  }
}
END
rota submit many.hcl'`, loadOfJobs))
	count := func() string { return strings.TrimSpace(s.run("head", "pgrep -fc '^sleep 86400' || true")) }
	s.until("head", "pgrep -fc '^sleep 86400'", fmt.Sprintf(`^%d\b`, loadOfJobs))
	t.Logf("%d jobs began within %v", loadOfJobs, took(begin))
	pids := s.run("head", "pgrep -f '^sleep 86400'")

	s.copyPackages(m, nextBuild, "root/next")
	for _, step := range []struct{ what, script string }{
		{"restart of the controller", "systemctl restart rota-controld"},
		{"restart of the node daemon", "systemctl restart rota-noded"},
		{"stop of the controller", "systemctl stop rota-controld"},
		{"start of the controller", "systemctl start rota-controld"},
		{"stop of the node daemon", "systemctl stop rota-noded"},
		{"start of the node daemon", "systemctl start rota-noded"},
		{"upgrade of the controller", "apt-get install -y /root/next/rota_*.deb /root/next/rota-controld_*.deb"},
		{"upgrade of the node daemon", "apt-get install -y /root/next/rota-noded_*.deb"},
	} {
		begin := time.Now()
		s.run("head", step.script)
		ready := took(begin)
		if strings.HasPrefix(step.what, "stop of") {
			t.Logf("%s: %v", step.what, ready)
			continue
		}
		s.until("head", "rota queue", `(?i)\bR\b|running`)
		t.Logf("%s: %v until it said that it is ready, %v until the queue was shown", step.what, ready, took(begin))
	}
	if got := count(); got != fmt.Sprint(loadOfJobs) {
		t.Errorf("%s jobs run, not %d", got, loadOfJobs)
	}
	if got := s.run("head", "pgrep -f '^sleep 86400'"); got != pids {
		t.Error("a job was started again")
	}
	s.until("head", "rota nodes", `\b(alloc|mixed|mix)`)
}

func took(since time.Time) time.Duration { return time.Since(since).Round(10 * time.Millisecond) }
