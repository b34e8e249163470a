package gpu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Update returns the inventory after a new reading. A known GPU keeps its index, by which jobs
// refer to it, and is unhealthy if the reading lacks it. With err, which means that the driver does
// not answer, all GPUs are unhealthy. New GPUs come last.
func (i Inventory) Update(now Inventory, err error) Inventory {
	if len(i.Devices) == 0 {
		return now
	}
	next := Inventory{Driver: now.Driver, Devices: slices.Clone(i.Devices)}
	for k, d := range i.Devices {
		next.Devices[k] = d.update(now, now.find(d.UUID), err)
	}
	for _, d := range now.Devices {
		if i.find(d.UUID) < 0 && d.identified() {
			next.Devices = append(next.Devices, d)
		}
	}
	return next
}

// update returns a device after a new reading, where at is its index in that reading, -1 if it is
// missing.
func (d Device) update(now Inventory, at int, err error) Device {
	if at < 0 {
		d.Healthy, d.Problem = false, "it is missing"
		if err != nil {
			d.Problem = err.Error()
		}
		return d
	}
	next := now.Devices[at]
	next.Event = cmp.Or(next.Event, d.Event) // a driver that was restarted does not report it again
	switch {
	case !next.Healthy: // the reading may lack its model and memory
		d.Healthy, d.Problem, d.Event = false, next.Problem, next.Event
		return d
	case next.Event != "":
		next.Healthy, next.Problem = false, next.Event
	}
	return next
}

// find returns the index of a device, -1 if it is missing.
func (i Inventory) find(uuid string) int {
	return slices.IndexFunc(i.Devices, func(d Device) bool { return d.UUID == uuid })
}

// UnknownPrefix begins the UUID of a device that has not reported its own.
const UnknownPrefix = "unknown-"

// identified reports whether the device has reported its UUID.
func (d Device) identified() bool { return !strings.HasPrefix(d.UUID, UnknownPrefix) }

// InventoryFile keeps the GPUs by their index for the next daemon on the same boot of the machine.
// Jobs go on meanwhile. A GPU that has fallen off the bus, or a driver that hangs, must not change
// the indices of the others. The zero value keeps nothing.
type InventoryFile struct {
	Path   string
	BootID string
}

// savedInventory is the content of the file.
type savedInventory struct {
	BootID string `json:"boot_id"`
	Inventory
}

// Load returns what the last daemon has saved, without the errors that the driver had reported: a
// new daemon gives every GPU another chance. The result is empty after a reboot, when GPUs may have
// been changed.
func (m InventoryFile) Load() (Inventory, error) {
	var r savedInventory
	b, err := os.ReadFile(m.Path)
	if m.Path == "" || errors.Is(err, os.ErrNotExist) {
		return Inventory{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return Inventory{}, fmt.Errorf("read the list of GPUs: %w", err)
	}
	if r.BootID != m.BootID {
		return Inventory{}, nil
	}
	for k := range r.Devices {
		r.Devices[k].Event = ""
	}
	return r.Inventory, nil
}

// Save keeps the inventory for the next daemon, whole or not at all.
func (m InventoryFile) Save(i Inventory) error {
	if m.Path == "" || len(i.Devices) == 0 {
		return nil
	}
	b, err := json.Marshal(savedInventory{m.BootID, i})
	if err == nil {
		err = os.WriteFile(m.Path+".tmp", b, 0o600)
	}
	if err == nil {
		err = os.Rename(m.Path+".tmp", m.Path)
	}
	if err != nil {
		return fmt.Errorf("save the list of GPUs in %s: %w", filepath.Dir(m.Path), err)
	}
	return nil
}
