# Settings of rota-controld on this machine. A line that begins with "#" and a setting shows its default.
# Restart the daemon after a change: systemctl restart rota-controld. "systemctl reload rota-controld" re-reads the
# settings of the cluster, at the end.

# Name of this controller, unique in the cluster. Default: the host name.
# name = "c1"

# Log, snapshots, history and certificates. If it is another directory, it belongs to the user rota with mode 0700, and
# drop-ins of the unit name it (systemctl edit rota-controld): ConditionPathExists=DIR/tls/cert.pem, ReadWritePaths=DIR
# data_dir = "/var/lib/rota/controld"

# Where it listens: for users and nodes, for the other controllers, for discovery (TCP and UDP). A node daemon on the same
# machine has other ports: /etc/rota/noded.hcl takes 7073 and 7074.
http   = "0.0.0.0:7070"
raft   = "0.0.0.0:7071"
gossip = "0.0.0.0:7072"

# Address that the others use. Default: the first address of this machine that is not loopback. A machine with several
# addresses names the one that the others reach.
# advertise = "192.0.2.1"

# Socket of users of this machine; "" for none. Commands try it and that of a node daemon, /run/rota/rota.sock, which may be
# on the same machine.
socket = "/run/rota/controld.sock"

# Gossip addresses of other daemons, besides those that this one knows since it joined.
# join = ["192.0.2.2:7072"]

# Format of this daemon's own log: text or json.
# log_format = "text"

# Whether root may submit jobs that run as root, or the user that the jobs of root run as instead.
# allow_root_jobs = false
# root_jobs_as    = ""

# ---- Settings of the cluster. The leader's are replicated: keep them alike on all controllers. As long as no controller
# has any of them, the cluster keeps what it has.

# cluster {
#   name = "rota"
# }

# Users, and groups as "%GROUP", that may act for all, and what users do not see of each other.
# admins    = []
# operators = []
# private   = []

# limits {
#   max_submit_jobs = 200000
#   max_requests    = 256
#   max_reads       = 50
#   max_processor   = 50
# }

# How long ended jobs are kept. Without it they are kept for ever.
# history {
#   keep = "365d"
# }

# A queue without max_time has no longest time.
# queue "default" {
#   default_class = "be"
#   default_time  = "1d"
#   te_max_time   = "2h"
#   te_max_gpus   = 16
#   max_grace     = "20m"
# }

# What jobs hold without a node, such as licences of a program: licenses = { matlab = 2 }, or -L matlab:2.
# license "matlab" {
#   count = 5
# }

# The account of jobs that name none is that of the user's Unix group, unless there is a line: default_account = "NAME".

# What each user may have at once. A user by name, an account and a queue may have such a block, too.
# user "*" {
#   limit {
#     running = 100
#   }
# }

# policy {
#   name = "rota"
# }

# Timeouts of the controllers' log, the same on all of them. rota doctor measures whether disk and network carry them.
# timeouts {
#   heartbeat    = "300ms" # silence of the leader after which another one is elected
#   election     = "300ms" # for votes to arrive
#   leader_lease = "200ms" # silence of the others after which a leader gives up
# }

# lease {
#   duration  = "10m"
#   margin    = "30s"
#   node_down = "15s"
# }

# Whether the account of a user's Unix group is made at the user's first job.
# accounts {
#   create = true
# }
