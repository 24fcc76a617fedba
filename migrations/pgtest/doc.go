// Package pgtest runs a PostgreSQL of one's own: for tests, and for `oncepay dev`.
//
// [Find] looks for PostgreSQL's programs on this machine, and as a last resort lets npm bring them.
// [Start] makes a data directory if there is none and runs postgres as a child that does not outlive
// this process (on Linux; elsewhere the next Start stops what was left). It survives kill -9 of
// either: locks, pid files, half-made clusters and orphans of the last run are sorted out before the
// next. The server listens on a free port of 127.0.0.1, on no Unix socket, and asks for a random
// password, so that other users of the machine stay out.
//
// Tests call [Main] from TestMain and then [New], [URL] or [Empty] for a database per test, cloned from
// a template that was migrated once. They only ever meet a server that this process started. Without
// PostgreSQL's programs they fail, with one line that says what to install.
//
// PostgreSQL refuses to run as root. For root, Start runs it as the user postgres, or nobody, and as
// that user has to reach the data, a data directory below a closed one (/root) gets a stand-in
// elsewhere: see [Options].
package pgtest
