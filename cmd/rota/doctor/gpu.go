package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/noded/gpu"
)

// nvidia is NVIDIA's vendor id on the PCI bus.
const nvidia = "0x10de"

// gpus checks NVIDIA's driver, device nodes and library in the same way as the node daemon.
func (in *inspection) gpus(ctx context.Context) []finding {
	if !in.forNode() {
		return nil
	}
	if in.settings.simulated() {
		return one(note, "simulated", "remove sim_gpus from the configuration to use real GPUs",
			"the node has %d simulated GPUs: real GPUs, if any, are not used", *in.settings.node.SimGPUs)
	}
	cards, promise := in.cards(), in.promisedGPUs()
	loaded := in.exists("/proc/driver/nvidia/version")
	nodes := in.glob("/dev/nvidia[0-9]*")
	if cards == 0 && promise == "" && !loaded && len(nodes) == 0 {
		return one(note, "none", "", "this machine has no NVIDIA GPU")
	}
	severe := bad
	if promise == "" && len(in.settings.roles()) == 0 {
		severe = warn
	}
	var found []finding
	switch {
	case promise != "" && cards == 0 && !loaded && len(nodes) == 0:
		return one(bad, "missing", "look at lspci -d 10de:; a virtual machine needs its GPUs passed through",
			"%s, but this machine "+
				"has none", promise)
	case !loaded && len(nodes) == 0:
		return one(severe, "driver", "install NVIDIA's driver, and run: modprobe nvidia", "%s, but NVIDIA's driver is not "+
			"loaded", show.Count(cards, "NVIDIA GPU is here", "NVIDIA GPUs are here"))
	case loaded:
		found = fine("driver", "%s", firstLine(in.text("/proc/driver/nvidia/version")))
	}
	found = append(found, in.deviceNodes(nodes)...)
	return append(found, in.nvml(ctx, severe, cards, len(nodes))...)
}

// cards counts NVIDIA's GPUs on the PCI bus.
func (in *inspection) cards() int {
	n := 0
	for _, path := range in.glob("/sys/bus/pci/devices/*/vendor") {
		class := in.text(filepath.Join(filepath.Dir(path), "class"))
		if in.text(path) == nvidia && (strings.HasPrefix(class, "0x0300") || strings.HasPrefix(class, "0x0302")) {
			n++
		}
	}
	return n
}

// promisedGPUs returns the reason why the cluster expects GPUs on this machine, or "".
func (in *inspection) promisedGPUs() string {
	if in.settings.node == nil {
		return ""
	}
	for _, n := range in.cluster.nodes {
		if n.Name == in.nodeName() && len(n.GPUs) > 0 && !strings.HasPrefix(n.GPUs[0].UUID, "GPU-SIM-") {
			return "the cluster knows " + show.Count(len(n.GPUs), "GPU", "GPUs") + " of node " + n.Name
		}
	}
	if n := in.settings.node.GPUs; n != nil && *n > 0 {
		return fmt.Sprintf("the configuration says gpus = %d", *n)
	}
	for key, val := range in.settings.node.Label {
		if strings.Contains(strings.ToLower(key), "gpu") && !slices.Contains([]string{"", "0", "no", "none", "false"}, val) {
			return "the label " + key + "=" + val + " says that this node has GPUs"
		}
	}
	return ""
}

// deviceNodes checks the files below /dev that programs open.
func (in *inspection) deviceNodes(nodes []string) []finding {
	const name = "device nodes"
	modprobe := in.find("nvidia-modprobe") != ""
	var missing []string
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm"} {
		if !in.exists(path) {
			missing = append(missing, path)
		}
	}
	if len(nodes) == 0 {
		missing = append(missing, "/dev/nvidia0")
	}
	switch {
	case len(missing) == 0:
		return fine(name, "%s, /dev/nvidiactl and /dev/nvidia-uvm exist", strings.Join(nodes, ", "))
	case slices.Equal(missing, []string{"/dev/nvidia-uvm"}) && modprobe:
		return fine(name, "%s exist; nvidia-modprobe creates /dev/nvidia-uvm for the first job", strings.Join(nodes, ", "))
	case modprobe:
		return one(warn, name, "nvidia-modprobe -u -c 0 when the machine starts, or nvidia-persistenced",
			"missing: %s", strings.Join(missing, ", "))
	}
	return one(bad, name, "install nvidia-modprobe, and run when the machine starts: nvidia-modprobe -u -c 0",
		"missing: %s; jobs cannot use CUDA without them", strings.Join(missing, ", "))
}

// nvml queries NVIDIA's library through the node daemon's helper process.
func (in *inspection) nvml(ctx context.Context, severe level, cards, nodes int) []finding {
	daemon := in.find(noded)
	if daemon == "" {
		return one(note, "nvml", "install rota-noded", "NVML is queried through rota-noded, which is not installed")
	}
	i, err := in.gpuList(ctx, daemon)
	var hung *gpu.HungError
	switch {
	case errors.As(err, &hung):
		return one(bad, "nvml", "see dmesg for XID errors; reboot the machine", "%v", err)
	case err != nil:
		return one(severe, "nvml", "see whether nvidia-smi works; after an update of the driver, reload its modules or "+
			"reboot", "%v", err)
	case i.Absent != "":
		return one(severe, "nvml", "install the driver's libraries and tools, such as the packages libnvidia-compute or "+
			"nvidia-utils of the driver's version; see ldconfig -p", "%s", i.Absent)
	}
	var found []finding
	if expected := max(cards, nodes); len(i.Devices) < expected {
		found = append(found, one(severe, "nvml", "see dmesg for the GPU that the driver does not start",
			"NVML counts %s, but the machine has %d", show.Count(len(i.Devices), "GPU", "GPUs"), expected)...)
	} else {
		found = append(found, fine("nvml", "driver %s, %s", i.Driver, show.Count(len(i.Devices), "GPU", "GPUs"))...)
	}
	slow := 0
	for _, d := range i.Devices {
		found = append(found, device(d)...)
		if d.Persistence == "off" {
			slow++
		}
	}
	if slow > 0 {
		found = append(found, one(note, "persistence", "run nvidia-persistenced, or nvidia-smi -pm 1",
			"persistence mode is off for %s: the first program after a pause waits for the driver, and its settings are lost",
			show.Count(slow, "GPU", "GPUs"))...)
	}
	return found
}

// device reports the health of one GPU.
func device(d gpu.Device) []finding {
	name := d.UUID
	if len(name) > 16 {
		name = name[:16]
	}
	switch {
	case d.Healthy:
		return fine(name, "%s, %s, %s", d.Model, show.Size(d.Memory), d.PCI)
	case strings.Contains(d.Problem, "MIG"):
		return one(bad, name, "nvidia-smi -i "+d.UUID+" -mig 0, while nothing runs on it", "%s: %s", d.Model, d.Problem)
	}
	return one(bad, name, "see dmesg; nvidia-smi -r resets a GPU without jobs; Rota uses the others meanwhile", "%s: %s",
		d.Model, d.Problem)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.Join(strings.Fields(strings.TrimPrefix(line, "NVRM version:")), " ")
}
