package container

import "testing"

// TestContainerOf notices a process that is taken for one of a container because of a name that is
// like its cgroup's, and one that is in only some hierarchies.
func TestContainerOf(t *testing.T) {
	id := ID{Job: 42, Attempt: 1, Worker: 3}
	for cgroups, want := range map[string]ID{
		"0::/rota/n1/42.1.3\n":                                id,
		"0::/rota/n1/42.1.3/main\n":                           id,
		"0::/rota/n1/42.1.3/step.12\n":                        id.OfStep(12),
		"0::/rota/n1/42.1.3/step.0/below\n":                   id.OfStep(0),
		"0::/rota/n1/42.1.3/step.x\n":                         id,
		"0::/rota/n1/42.1.3 (gone)\n":                         {},
		"12:memory:/rota/n1/42.1.3\n11:cpu,cpuacct:/\n0::/\n": id,
		"11:cpu,cpuacct:/\n1:name=systemd:/rota/n1/42.1.3\n":  id,
		"0::/rota/n10/42.1.3\n":                               {},
		"0::/x/rota/n1/42.1.3\n":                              {},
		"0::/rota/n1\n":                                       {},
		"0::/rota/n1/shims\n":                                 {},
		"":                                                    {},
		"garbage\n::\n":                                       {},
	} {
		got, ok := containerOf(cgroups, "/rota/n1")
		if got != want || ok != (want != ID{}) {
			t.Errorf("%q: %v, %v, want %v", cgroups, got, ok, want)
		}
	}
	if got, ok := (&Shims{cfg: Config{CgroupRoot: "/rota/n1"}}).ContainerOf(1); ok {
		t.Errorf("process 1 of the machine is of container %v", got)
	}
}
