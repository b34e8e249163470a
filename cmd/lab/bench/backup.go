package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// endedBeforeBackup is how many jobs the history has when a full queue is backed up.
const endedBeforeBackup = 1_000_000

// measureBackup measures how long the backup of a full queue with a long history takes. It also
// measures the time until a controller answers again from it.
func measureBackup(ctx context.Context, b *bench) error {
	return b.with(ctx, "backup", 1, 0, func(c *lab.Cluster) error {
		q := &fullQueue{b: b, c: c, each: b.repeat(queueEach)}
		defer q.close()
		if err := q.open(ctx); err != nil {
			return err
		}
		ended, err := q.fillHistory(ctx)
		if err != nil {
			return err
		}
		file := filepath.Join(b.dir, "backup.rota")
		if err := b.saveBackup(ctx, c, file, ended, queueUsers*q.each); err != nil {
			return err
		}
		return b.restoreBackup(ctx, c, file, queueUsers*q.each)
	})
}

// fillHistory fills the queue and cancels it, until the history has enough jobs, and fills it again. It
// returns how many jobs the history has.
func (q *fullQueue) fillHistory(ctx context.Context) (ended int, err error) {
	for most := q.b.repeat(endedBeforeBackup); ended < most; {
		if err := q.submitPending(ctx); err != nil {
			return 0, err
		}
		resp, err := q.admin.CancelMany(ctx, api.CancelRequest{States: []string{"PD"}})
		if err != nil {
			return 0, err
		}
		ended += len(resp.Items)
	}
	for {
		last, err := metric(ctx, q.leader.Plain, "rota_history_last")
		if err != nil {
			return 0, err
		}
		if int(last) >= ended {
			return ended, q.submitPending(ctx)
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (b *bench) saveBackup(ctx context.Context, c *lab.Cluster, file string, ended, pending int) error {
	cmd := c.Rota(ctx, "cluster", "backup", file)
	cmd.Env = append(cmd.Env, "ROTA_ADDR=unix:"+c.Controllers[0].Socket)
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rota cluster backup: %w: %s", err, out)
	}
	took := time.Since(begin)
	size, err := os.Stat(file)
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("backup of %d jobs, %d ended", pending, ended), took.Seconds(), "s", "",
		fmt.Sprintf("%.0f MB, while the controller works", float64(size.Size())/1e6))
	return nil
}

// restoreBackup replaces the data directory of the controller by its keys and the backup.
func (b *bench) restoreBackup(ctx context.Context, c *lab.Cluster, file string, pending int) error {
	d := c.Controllers[0]
	d.Term()
	if err := os.Rename(d.Data, d.Data+".before"); err != nil {
		return err
	}
	if err := os.Mkdir(d.Data, 0o700); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(d.Data+".before", "tls"), filepath.Join(d.Data, "tls")); err != nil {
		return err
	}
	begin := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "rota-controld"), "restore", file, "--name", d.Name,
		"--data-dir", d.Data)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rota-controld restore: %w: %s", err, out)
	}
	restored := time.Since(begin)
	if err := d.Start(); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	b.add("restore it, until the controller answers", time.Since(begin).Seconds(), "s", "<= 30",
		fmt.Sprintf("rota-controld restore alone %.1f s", restored.Seconds()))
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	count, err := countPending(ctx, client)
	if err == nil && count != pending {
		err = fmt.Errorf("%d jobs are pending after the restore, but %d were pending before", count, pending)
	}
	return err
}

func countPending(ctx context.Context, client *api.Client) (count int, err error) {
	f := api.JobFilter{States: []string{"PD"}, Fields: []string{"id"}, Limit: 10_000}
	for {
		list, _, err := client.Jobs(ctx, f, api.Read{Consistent: true})
		if err != nil {
			return 0, err
		}
		count += len(list.Items)
		if f.Page = list.Next; f.Page == "" {
			return count, nil
		}
	}
}
