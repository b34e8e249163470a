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

// After is what is known of the GPUs once they have been looked at again. One that was known keeps its index, because jobs refer to it by that,
// and is unwell when it is not there any more; when err says that the driver does not answer, all of them are. New ones come last.
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

// after is one device as it is now, at a place in the inventory, or not there any more.
func (d Device) update(now Inventory, at int, err error) Device {
	if at < 0 {
		d.Healthy, d.Problem = false, "it is not there any more"
		if err != nil {
			d.Problem = err.Error()
		}
		return d
	}
	next := now.Devices[at]
	next.Event = cmp.Or(next.Event, d.Event) // a driver that has been asked anew does not say it again
	switch {
	case !next.Healthy: // and may not say any more what it is
		d.Healthy, d.Problem, d.Event = false, next.Problem, next.Event
		return d
	case next.Event != "":
		next.Healthy, next.Problem = false, next.Event
	}
	return next
}

// find is the index of a device, -1 if it is not there.
func (i Inventory) find(uuid string) int {
	return slices.IndexFunc(i.Devices, func(d Device) bool { return d.UUID == uuid })
}

const unknownPrefix = "unknown-"

// known reports whether the device has said which it is.
func (d Device) identified() bool { return !strings.HasPrefix(d.UUID, unknownPrefix) }

// Memory is a file in which a daemon leaves which GPUs there are, by their index, for the next one on the same boot of the machine: jobs go on
// meanwhile, and a GPU that has fallen off the bus by then, or a driver that hangs, must not move the others. The zero one remembers nothing.
type InventoryFile struct {
	Path   string
	BootID string
}

// remembered is what the file holds.
type savedInventory struct {
	BootID string `json:"boot_id"`
	Inventory
}

// Load returns what the last daemon has left, without what an event had told it: a new daemon gives every GPU another chance. There is
// nothing after a reboot, when GPUs may have been changed.
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
		return Inventory{}, fmt.Errorf("read which GPUs there were: %w", err)
	}
	if r.BootID != m.BootID {
		return Inventory{}, nil
	}
	for k := range r.Devices {
		r.Devices[k].Event = ""
	}
	return r.Inventory, nil
}

// Save leaves the inventory for the next daemon, whole or not at all.
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
		return fmt.Errorf("write down which GPUs there are in %s: %w", filepath.Dir(m.Path), err)
	}
	return nil
}
