-- Indexes for the lists, so that a page costs what is on it. Most charges go from pending by way of processing to succeeded: these have no entry for
-- those, and cost them nothing.
CREATE INDEX IF NOT EXISTS charge_aside ON charge (status, id)
    WHERE status IN ('requires_action', 'requires_capture', 'needs_review', 'failed', 'canceled');
CREATE INDEX IF NOT EXISTS charge_aside_by_caller ON charge (caller, status, id)
    WHERE status IN ('requires_action', 'requires_capture', 'needs_review', 'failed', 'canceled');
CREATE INDEX IF NOT EXISTS charge_freed_reference ON charge (caller, reference) WHERE reference_freed AND reference IS NOT NULL;
