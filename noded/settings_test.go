package noded

import (
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestValidateTellsEverything(t *testing.T) {
	bad := Config{
		Name: "-n", DataDir: "relative", Gossip: "10.0.0.1:7072", HTTP: "nowhere", Cores: -1, CgroupRoot: "/", SharedPaths: []string{"/a/../b"}, Ports: "5-1",
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--name", "--data-dir", "--gossip 10.0.0.1:7072 can be reached", "--http", "--join", "--cores", "--cgroup-root", "--shared-path", "--ports"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	good := DefaultConfig()
	good.Join = []string{"127.0.0.1:7072"}
	if err := good.withDefaults().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestCores(t *testing.T) {
	c := NewCores([][]int{{0, 1, 2, 3}, {4, 5, 6, 7}})
	steps := []struct {
		n, near int
		want    []int
	}{
		{1, -1, []int{0}},
		{1, -1, []int{1}},          // best fit: the node that is in use already
		{4, -1, []int{4, 5, 6, 7}}, // whole on one node
		{3, -1, nil},
		{1, 1, []int{2}}, // nothing left near its GPU
		{0, -1, nil},
	}
	for _, s := range steps {
		if got := c.Take(s.n, s.near); !reflect.DeepEqual(got, s.want) {
			t.Fatalf("%d near %d: got %v, want %v", s.n, s.near, got, s.want)
		}
	}
	c.Give([]int{4, 5})
	if got := c.Take(1, 1); !reflect.DeepEqual(got, []int{4}) {
		t.Fatalf("near its GPU: got %v", got)
	}
	if got := c.Take(2, 1); !reflect.DeepEqual(got, []int{3, 5}) {
		t.Fatalf("across nodes: got %v", got)
	}
	if got := atMost([][]int{{0, 1}, {2, 3}}, 3); !reflect.DeepEqual(got, [][]int{{0, 1}, {2}}) {
		t.Fatalf("got %v", got)
	}
}

func TestCPULists(t *testing.T) {
	for text, want := range map[string][]int{"0-3,8": {0, 1, 2, 3, 8}, "5": {5}, "": nil} {
		if got, err := parseCPUList(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "3-1", "-1", "1-", "0-99999999"} {
		if got, err := parseCPUList(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestNewestLine(t *testing.T) {
	for text, want := range map[string]int64{"{\"step\":1}\n": 1, "{\"step\":1}\n{\"step\":2": 1, "{\"step\":1}\n\n[]\n{}\n": 1, "x\n": -1, "": -1} {
		line, _ := newestLine([]byte(text))
		got := int64(-1)
		if line != nil {
			got = *line.Step
		}
		if got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// TestUmask: with that of a careful root, such as 077, no job's user could enter its container.
func TestUmask(t *testing.T) {
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	if err := Run(t.Context(), Config{}); err == nil {
		t.Fatal("an empty configuration is no error")
	}
	if now := unix.Umask(0o077); now != 0o022 {
		t.Errorf("got %03o", now)
	}
}
