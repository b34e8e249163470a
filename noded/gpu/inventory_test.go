package gpu_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/gpu"
)

func devices(problems map[string]string, uuids ...string) []gpu.Device {
	var list []gpu.Device
	for _, uuid := range uuids {
		p := problems[uuid]
		list = append(list, gpu.Device{GPU: cluster.GPU{UUID: uuid, Healthy: p == "", Problem: p}})
	}
	return list
}

// TestUpdate shows that a known GPU stays at its index, whatever the driver reports.
func TestUpdate(t *testing.T) {
	known := gpu.Inventory{Devices: devices(nil, "a", "b")}
	lost, hangs := "it is missing", errors.New("it hangs")
	for name, c := range map[string]struct {
		now  gpu.Inventory
		err  error
		want []gpu.Device
	}{
		"as before": {now: known, want: known.Devices},
		"one gone": {now: gpu.Inventory{Devices: devices(nil, "b")},
			want: devices(map[string]string{"a": lost}, "a", "b")},
		"one mute": {now: gpu.Inventory{Devices: devices(map[string]string{"unknown-0": "lost"}, "unknown-0",
			"b")}, want: devices(map[string]string{"a": lost}, "a", "b")},
		"all silent": {err: hangs, want: devices(map[string]string{"a": "it hangs", "b": "it hangs"}, "a", "b")},
		"another in front": {now: gpu.Inventory{Devices: devices(nil, "c", "a", "b")},
			want: devices(nil, "a", "b", "c")},
	} {
		got := known.Update(c.now, c.err)
		if !reflect.DeepEqual(got.Devices, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got.Devices, c.want)
		}
	}
}

// TestUpdateOfALostGPU shows that a GPU that reports only its UUID keeps its model and memory.
func TestUpdateOfALostGPU(t *testing.T) {
	whole := gpu.Device{GPU: cluster.GPU{UUID: "a", Model: "H100", Memory: 80 << 30, Minor: 3, Healthy: true},
		PCI: "00000000:10:00.0", NUMA: 1}
	lost := gpu.Device{GPU: cluster.GPU{UUID: "a", Problem: "name: GPU is lost"}, NUMA: -1}
	want := whole
	want.Healthy, want.Problem = false, lost.Problem
	known := gpu.Inventory{Devices: []gpu.Device{whole}}.Update(gpu.Inventory{Devices: []gpu.Device{lost}}, nil)
	if known.Devices[0] != want {
		t.Errorf("got %+v, want %+v", known.Devices[0], want)
	}
	if well := known.Update(gpu.Inventory{Devices: []gpu.Device{whole}}, nil); well.Devices[0] != whole {
		t.Errorf("once it is back: got %+v", well.Devices[0])
	}
}

// TestUpdateAfterAnEvent shows that a critical error, which is reported once, stays.
func TestUpdateAfterAnEvent(t *testing.T) {
	const xid = "the driver reported XID 79"
	told := devices(map[string]string{"a": xid}, "a")
	told[0].Event = xid
	got := gpu.Inventory{Devices: told}.Update(gpu.Inventory{Devices: devices(nil, "a")}, nil)
	if got.Devices[0].Healthy || got.Devices[0].Problem != xid {
		t.Fatalf("got %+v", got.Devices[0])
	}
}

func TestInventoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpus.json")
	load := func(boot string) gpu.Inventory {
		i, err := gpu.InventoryFile{Path: path, BootID: boot}.Load()
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	if got := load("1"); len(got.Devices) != 0 {
		t.Fatalf("got %+v before anything was left", got)
	}
	known := gpu.Inventory{Driver: "570.1", Devices: devices(nil, "a", "b")}
	if err := (gpu.InventoryFile{Path: path, BootID: "1"}).Save(known); err != nil {
		t.Fatal(err)
	}
	if got := load("1"); !reflect.DeepEqual(got, known) {
		t.Fatalf("got %+v", got)
	}
	if got := load("2"); len(got.Devices) != 0 {
		t.Fatalf("got %+v after a reboot", got)
	}
}
