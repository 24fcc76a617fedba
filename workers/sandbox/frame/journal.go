package frame

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Record is one remembered fact. A later record of the same kind about the same thing replaces the earlier.
type Record struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
}

// NewRecord makes a record of v, a plain struct or number. It panics on a value that JSON cannot hold.
func NewRecord(kind string, v any) Record {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sandbox: encode %s record: %v", kind, err))
	}
	return Record{Kind: kind, Value: raw}
}

// Keeper is a part of the sandbox whose state the journal keeps.
type Keeper interface {
	// Kinds names the records that belong to this keeper.
	Kinds() []string
	// Restore applies one record; records come in the order in which they were appended.
	Restore(Record) error
	// Snapshot returns records from which Restore would rebuild the present state.
	Snapshot() []Record
}

// Journal is an append-only file of JSON lines, one line per Append, so that what one Append holds is
// remembered together or not at all. A line is handed to the operating system before Append returns: it
// survives the death of the process, and not a loss of power.
type Journal struct {
	path string
	lock *os.File

	mu     sync.Mutex
	file   *os.File
	broken error
}

// OpenJournal locks the journal at path, for this process alone, with a file beside it, path.lock. Replay must follow before
// the first Append. A file that does not begin as a journal does is refused, and nothing is made beside it. With an empty path
// nothing is written or read.
func OpenJournal(path string) (*Journal, error) {
	if path == "" {
		return &Journal{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("sandbox journal: %w", err)
	}
	if err := refuseForeign(path); err != nil {
		return nil, err
	}
	// The lock is a file of its own because Replay puts a new journal in the old one's place.
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sandbox journal: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		closeErr := lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("sandbox journal %s is in use by another process", path)
		}
		return nil, errors.Join(fmt.Errorf("lock sandbox journal %s: %w", path, err), closeErr)
	}
	return &Journal{path: path, lock: lock}, nil
}

// lineStart is how every line that holds a record begins, as encodeLine writes it.
const lineStart = `[{"kind":"`

// refuseForeign returns an error for a file of somebody else's, such as one named by mistake. One whose only line was cut short
// is still told apart by its beginning.
func refuseForeign(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("sandbox journal: %w", err)
	}
	defer file.Close()
	in := bufio.NewReader(file)
	start, err := in.Peek(len(lineStart))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("sandbox journal: %w", err)
	}
	foreign := fmt.Errorf("sandbox journal %s, line 1: this is not a journal of the sandbox; name another file", path)
	if !strings.HasPrefix(lineStart, string(start)) {
		return foreign
	}
	line, err := in.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("sandbox journal: %w", err)
	}
	var records []Record
	if json.Unmarshal(line, &records) != nil {
		return foreign
	}
	return nil
}

// Replay gives every record to its keeper, then rewrites the file to what the keepers still hold and opens it
// for appending. A last line that a kill cut short was never answered, and is dropped; any other line that
// cannot be read is an error.
func (j *Journal) Replay(logger *slog.Logger, keepers ...Keeper) error {
	if j.path == "" {
		return nil
	}
	if err := j.restore(logger, keepers); err != nil {
		return err
	}
	if err := j.compact(keepers); err != nil {
		return fmt.Errorf("compact sandbox journal %s: %w", j.path, err)
	}
	file, err := os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("sandbox journal: %w", err)
	}
	j.file = file
	return nil
}

func (j *Journal) restore(logger *slog.Logger, keepers []Keeper) error {
	file, err := os.Open(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("sandbox journal: %w", err)
	}
	defer file.Close()

	byKind := map[string]Keeper{}
	for _, k := range keepers {
		for _, kind := range k.Kinds() {
			byKind[kind] = k
		}
	}
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				logger.Warn("sandbox.journal dropped a torn last line", "path", j.path, "line", n, "bytes", len(line))
			}
			return nil
		} else if err != nil {
			return fmt.Errorf("read sandbox journal: %w", err)
		}
		var records []Record
		if err := json.Unmarshal(line, &records); err != nil {
			return fmt.Errorf("sandbox journal %s, line %d: %w", j.path, n, err)
		}
		for _, r := range records {
			keeper, ok := byKind[r.Kind]
			if !ok {
				return fmt.Errorf("sandbox journal %s, line %d: unknown kind %q", j.path, n, r.Kind)
			}
			if err := keeper.Restore(r); err != nil {
				return fmt.Errorf("sandbox journal %s, line %d: restore %s: %w", j.path, n, r.Kind, err)
			}
		}
	}
}

// compact puts a fresh journal in place of the old one; a crash on the way leaves the old one whole.
func (j *Journal) compact(keepers []Keeper) error {
	fresh, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(fresh)
	for _, k := range keepers {
		for _, r := range k.Snapshot() {
			// A bufio.Writer keeps its first error, which Flush returns.
			_, _ = out.Write(encodeLine(r))
		}
	}
	if err := errors.Join(out.Flush(), fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), j.path)
}

// Append remembers the records, together. After a failed write the journal refuses all later ones, because
// its last line may be half a line.
func (j *Journal) Append(records ...Record) error {
	if j.path == "" {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if _, err := j.file.Write(encodeLine(records...)); err != nil {
		j.broken = fmt.Errorf("write sandbox journal: %w", err)
	}
	return j.broken
}

// encodeLine is the only form of a line, at Append and at compact.
func encodeLine(records ...Record) []byte {
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(records); err != nil {
		panic(fmt.Sprintf("sandbox: encode journal line: %v", err))
	}
	return line.Bytes()
}

// Close releases the journal; every later Append fails.
func (j *Journal) Close() error {
	if j.path == "" {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.broken, os.ErrClosed) {
		return nil
	}
	j.broken = fmt.Errorf("sandbox journal: %w", os.ErrClosed)
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	// Unlocked by word: a child that is just being forked shares the lock until it has exec'd.
	return errors.Join(err, syscall.Flock(int(j.lock.Fd()), syscall.LOCK_UN), j.lock.Close())
}
