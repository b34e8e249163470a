// Package nvml reads GPUs from NVIDIA's library. Only the helper process of a node daemon calls it, and
// "rota doctor" through that process: see package gpu. It is a package of its own because it needs cgo.
package nvml

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/gpu"
)

// Serve answers a [gpu.Helper] on in and out with what NVML reports, until in ends. library is the
// path of the library, "" for the machine's own. Without a library, or without a driver, there are
// no GPUs, and that is not an error: the inventory says what is missing.
func Serve(library string, in io.Reader, out io.Writer) error {
	var opts []nvml.LibraryOption
	if library != "" {
		opts = append(opts, nvml.WithLibraryPath(library))
	}
	n := &driver{lib: nvml.New(opts...), problems: map[string]string{}}
	defer func() { _ = n.Close() }() // the process ends
	return gpu.Serve(n, in, out)
}

// driver is NVML within the helper process.
type driver struct {
	lib   nvml.Interface
	ready bool

	mu       sync.Mutex
	problems map[string]string // by UUID: the faults that events have reported
}

// open loads the library if that has not been done. none means that there is no library or no
// driver.
func (n *driver) open() (absent string, err error) {
	if n.ready {
		return "", nil
	}
	switch r := n.lib.Init(); r {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "NVIDIA's library libnvidia-ml.so.1 is not installed on this machine", nil
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the kernel module of NVIDIA's driver is not loaded", nil
	default:
		return "", fmt.Errorf("start NVML: %v", n.lib.ErrorString(r))
	}
	n.ready = true
	n.watchEvents()
	return "", nil
}

// hasFunction reports whether the library has a function. A call of a function that an older driver
// lacks would end the process.
func (n *driver) hasFunction(symbol string) bool {
	return n.lib.Extensions().LookupSymbol(symbol) == nil
}

// Inventory implements [Source].
func (n *driver) Inventory(context.Context) (gpu.Inventory, error) {
	var i gpu.Inventory
	absent, err := n.open()
	if absent != "" || err != nil {
		return gpu.Inventory{Absent: absent}, err
	}
	if n.hasFunction("nvmlSystemGetDriverVersion") {
		i.Driver, _ = n.lib.SystemGetDriverVersion()
	}
	count, r := n.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return i, fmt.Errorf("count GPUs: %v", n.lib.ErrorString(r))
	}
	for k := range count {
		d, r := n.lib.DeviceGetHandleByIndex(k)
		if r != nvml.SUCCESS {
			i.Devices = append(i.Devices, brokenDevice(k, n.lib.ErrorString(r)))
			continue
		}
		i.Devices = append(i.Devices, n.describe(k, d))
	}
	return i, nil
}

// brokenDevice is a GPU that does not even report its UUID.
func brokenDevice(index int, problem string) gpu.Device {
	return gpu.Device{NUMA: -1, GPU: model.GPU{UUID: gpu.UnknownPrefix + strconv.Itoa(index), Minor: -1, Problem: problem}}
}

// describe returns all that the driver reports of one GPU.
func (n *driver) describe(index int, h nvml.Device) gpu.Device {
	d := gpu.Device{NUMA: -1, GPU: model.GPU{Minor: -1, Healthy: true}}
	var r nvml.Return
	if d.UUID, r = h.GetUUID(); r != nvml.SUCCESS {
		return brokenDevice(index, n.lib.ErrorString(r))
	}
	fail := func(problem string) {
		if d.Healthy { // the first problem stays
			d.Healthy, d.Problem = false, problem
		}
	}
	check := func(what string, r nvml.Return) {
		if r != nvml.SUCCESS {
			fail(what + ": " + n.lib.ErrorString(r))
		}
	}
	d.Model, r = h.GetName()
	check("name", r)
	memory, r := h.GetMemoryInfo()
	check("memory", r)
	setSize(&d.Memory, memory.Total)
	d.Minor, r = h.GetMinorNumber()
	check("minor number", r)
	if n.hasFunction("nvmlDeviceGetPciInfo_v3") {
		if pci, r := h.GetPciInfo(); r == nvml.SUCCESS {
			d.PCI = text(pci.BusId[:])
			d.NUMA = numaOf(d.PCI)
		}
	}
	if n.hasFunction("nvmlDeviceGetTotalEccErrors") {
		count, r := h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		if r == nvml.SUCCESS && count > 0 {
			fail(fmt.Sprintf("%d uncorrected memory errors since the driver was loaded", count))
		}
	}
	if n.hasFunction("nvmlDeviceGetMigMode") {
		if now, _, r := h.GetMigMode(); r == nvml.SUCCESS && now == nvml.DEVICE_MIG_ENABLE {
			fail("MIG is enabled, but only whole GPUs are allocated: turn it off with nvidia-smi -mig 0")
		}
	}
	if n.hasFunction("nvmlDeviceGetPersistenceMode") {
		if mode, r := h.GetPersistenceMode(); r == nvml.SUCCESS {
			d.Persistence = map[bool]string{true: "on", false: "off"}[mode == nvml.FEATURE_ENABLED]
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.Event = n.problems[d.UUID]; d.Event != "" {
		fail(d.Event)
	}
	return d
}

// Close implements [Source].
func (n *driver) Close() error {
	if n.ready {
		_ = n.lib.Shutdown() // the process ends anyway
	}
	return nil
}

// userXIDs are errors that programs cause and that say nothing about the GPU.
var userXIDs = map[uint64]bool{13: true, 31: true, 43: true, 45: true, 68: true, 109: true}

// watchEvents records critical errors as the driver reports them.
func (n *driver) watchEvents() {
	if !n.hasFunction("nvmlEventSetCreate") || !n.hasFunction("nvmlDeviceRegisterEvents") ||
		!n.hasFunction("nvmlEventSetWait_v2") || !n.hasFunction("nvmlDeviceGetSupportedEventTypes") {
		return
	}
	set, r := n.lib.EventSetCreate()
	if r != nvml.SUCCESS {
		return
	}
	count, _ := n.lib.DeviceGetCount()
	for k := range count {
		h, r := n.lib.DeviceGetHandleByIndex(k)
		if r != nvml.SUCCESS {
			continue
		}
		if types, r := h.GetSupportedEventTypes(); r == nvml.SUCCESS {
			_ = h.RegisterEvents(types&(nvml.EventTypeXidCriticalError|nvml.EventTypeDoubleBitEccError), set)
		}
	}
	go func() {
		for {
			e, r := set.Wait(1000)
			switch r {
			case nvml.SUCCESS:
				n.recordEvent(e)
			case nvml.ERROR_TIMEOUT:
			default: // for instance a GPU is lost: other GPUs may report events
				time.Sleep(time.Second)
			}
		}
	}()
}

func (n *driver) recordEvent(e nvml.EventData) {
	if e.EventType == nvml.EventTypeXidCriticalError && userXIDs[e.EventData] {
		return
	}
	uuid, r := e.Device.GetUUID()
	if r != nvml.SUCCESS {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.problems[uuid] = "the driver reported an uncorrected memory error"
	if e.EventType == nvml.EventTypeXidCriticalError {
		n.problems[uuid] = fmt.Sprintf("the driver reported XID %d", e.EventData)
	}
}

// numaOf returns the NUMA node of a PCI device.
func numaOf(pci string) int {
	pci = strings.ToLower(pci)
	if len(pci) == len("00000000:10:00.0") {
		pci = pci[4:] // the kernel writes domains with four digits
	}
	b, _ := os.ReadFile("/sys/bus/pci/devices/" + pci + "/numa_node") // no number is in a missing file
	node, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return node
}

// setSize stores bytes in a size of any integer type.
func setSize[T ~int64](to *T, bytes uint64) { *to = T(bytes) }

// text returns a string of the library, which ends at its first zero.
func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}
