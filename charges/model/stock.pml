/* Two charges and one item: who holds it, who has taken it, who gives it back, under two APIs that accept, two workers, a person, crashes at every
   commit, and a Stripe whose word may come after the end. README.md beside this file says what is covered. Names are those of charges/stock.go.

   Each -D below takes one rule away, and must break a promise: NO_LOCK, NO_UNDO, NO_GIVE_BACK, APART, TIMER, STALE, LATE_FREE, LATE_ANYWAY,
   PERSON_FREE, QUANTITY_FREE. */

#define ITEMS 1 /* inventory.quantity at first */
#define MORE  1 /* how many a person may stock besides */
#ifndef FAULTS
#define FAULTS 3 /* crashes and wrong words of a person: so many in all */
#endif

mtype = { absent, open, succeeded, over, review, settled };   /* a charge; over: failed or canceled; settled: succeeded without its item, because a person insisted */
mtype = { nowhere, held, taken, returned };                   /* its item */
mtype = { unpaid, paying, paid, dead };                       /* its payment at Stripe: paid and dead are for good */

/* The database: what is committed. */
mtype charge[2] = absent; mtype stock[2] = nowhere;
byte quantity = ITEMS, allocated;
bit short_[2];                 /* the review's reason is insufficient_inventory */
bit asked[2];                  /* a person was asked for want of the item */
bit locked;                    /* the row of the SKU */
bit row[2];                    /* the row of a charge is locked */
/* Stripe. */
mtype payment[2] = unpaid;
byte faults = FAULTS, more = MORE;

#define final(c) (charge[c] == over || charge[c] == succeeded || charge[c] == settled)
#define counted (((stock[0] == held || stock[0] == taken) -> 1 : 0) + ((stock[1] == held || stock[1] == taken) -> 1 : 0))

/* The promises, at every commit. */
inline look() {
    assert(allocated <= quantity);                                                                    /* never oversold */
    assert(allocated == counted);                                                                     /* and none is lost */
    assert(!(charge[0] == over && stock[0] != returned) && !(charge[1] == over && stock[1] != returned)); /* nothing is held by what is over */
    assert(!(charge[0] == open && stock[0] != held) && !(charge[1] == open && stock[1] != held));     /* what may still be paid has its item */
    assert(!(charge[0] == succeeded && stock[0] != taken) && !(charge[1] == succeeded && stock[1] != taken));
    assert(!(charge[0] == settled && !asked[0]) && !(charge[1] == settled && !asked[1]))              /* or a person was asked */
}

/* A transaction dies with its process: PostgreSQL rolls back what it wrote, and lets its locks go. */
#define crash_in(c) atomic { faults > 0 -> faults--; row[c] = 0; goto again }

/* Stripe's word that a charge has not followed yet. */
#define paid_unheard(c) (payment[c] == paid && charge[c] != absent && charge[c] != succeeded && charge[c] != settled && !short_[c])
#define dead_unheard(c) (payment[c] == dead && charge[c] == open)

/* hold: the SKU's row is locked, what is available is read, and then both are written with the charge, in one commit. */
active [2] proctype Accept() {
    byte available; byte c = _pid;
again:
    atomic { available = 0 }
    if
    :: charge[c] != absent -> goto done
    :: else
    fi;
#ifdef NO_LOCK
    available = quantity - allocated;
    if
    :: available > 0 -> atomic { allocated++; stock[c] = held; charge[c] = open; look() }
    :: else -> goto done /* 409: nothing is left behind */
    fi;
#else
    atomic { !locked -> locked = 1 };
    available = quantity - allocated;
    if
    :: atomic { available > 0 -> allocated++; stock[c] = held; charge[c] = open; locked = 0; look() }
#ifdef NO_UNDO
    :: atomic { available == 0 -> charge[c] = open; locked = 0; look() } /* the row of the refused charge stays */
#else
    :: atomic { available == 0 -> locked = 0; goto done }
#endif
    :: atomic { faults > 0 -> faults--; locked = 0; goto again }
    fi;
#endif
done:
    skip
}

/* Stripe: what is open may be paid or declined, by its buyer's doing, at any time. */
active proctype Stripe() {
end: do
    :: atomic { charge[0] != absent && payment[0] == unpaid -> payment[0] = paying }
    :: atomic { charge[1] != absent && payment[1] == unpaid -> payment[1] = paying }
    :: atomic { payment[0] == paying -> if :: payment[0] = paid :: payment[0] = dead fi }
    :: atomic { payment[1] == paying -> if :: payment[1] = paid :: payment[1] = dead fi }
    od
}

/* move, with withStock: under the charge's row lock, which is taken first, and the SKU's, which is taken last. */
inline ends(c) { /* failed or canceled */
    atomic { !locked -> locked = 1 };
#ifdef APART
    atomic { was == held -> allocated--; look() }; /* in a commit of its own, before the one that ends the charge */
#endif
    if
    :: atomic { true ->
        charge[c] = over;
        if
        :: was == held ->
#if !defined(NO_GIVE_BACK) && !defined(APART)
            allocated--;
#endif
            stock[c] = returned
        :: else
        fi;
        locked = 0; row[c] = 0; look() }
    :: atomic { faults > 0 -> faults--; locked = 0; row[c] = 0; goto again }
    fi
}

inline pays(c) { /* succeeded */
    if
    :: atomic { stock[c] == held -> stock[c] = taken; charge[c] = succeeded; row[c] = 0; look() } /* the SKU's row is left alone */
#ifdef STALE
    :: atomic { stock[c] == taken -> row[c] = 0 } /* another worker has heard the same */
#endif
    :: stock[c] == returned ->
        atomic { !locked -> locked = 1 };
        if
#ifdef LATE_FREE
        :: atomic { true -> stock[c] = taken; charge[c] = succeeded; locked = 0; row[c] = 0; look() }
#else
        :: atomic { allocated < quantity -> allocated++; stock[c] = taken; charge[c] = succeeded; locked = 0; row[c] = 0; look() }
#ifdef LATE_ANYWAY
        :: atomic { allocated >= quantity -> charge[c] = settled; locked = 0; row[c] = 0; look() }
#else
        :: atomic { allocated >= quantity -> charge[c] = review; short_[c] = 1; asked[c] = 1; locked = 0; row[c] = 0; look() }
#endif
#endif
        :: atomic { faults > 0 -> faults--; locked = 0; row[c] = 0; goto again }
        fi
    :: crash_in(c)
    fi
}

/* A worker hears of a charge's payment, again and again. */
active [2] proctype Worker() {
    byte c; mtype said, was;
again:
    atomic { c = 0; said = unpaid; was = nowhere };
end: do
    :: atomic { paid_unheard(0) || dead_unheard(0) -> c = 0; said = payment[0] } goto moves
    :: atomic { paid_unheard(1) || dead_unheard(1) -> c = 1; said = payment[1] } goto moves
#ifdef TIMER
    /* What is held for long is given back, whatever becomes of its payment. */
    :: atomic { charge[0] == open && stock[0] == held && !locked && !row[0] -> stock[0] = returned; allocated--; look() }
#endif
    od;
moves:
#ifdef STALE
    was = stock[c]; /* read before the lock is there */
    atomic { !row[c] -> row[c] = 1 };
#else
    atomic { !row[c] -> row[c] = 1; was = stock[c] };
    if
    :: atomic { said == paid && !paid_unheard(c) || said == dead && !dead_unheard(c) -> row[c] = 0; goto again } /* somebody else has settled it meanwhile */
    :: else
    fi;
#endif
    if
    :: said == paid -> pays(c)
    :: else -> ends(c)
    fi;
    goto again
}

/* A person: may call failed what is open, rightly or not, stock some more, and settle what asks for it. */
active proctype Person() {
    byte c; mtype was;
again:
    atomic { c = 0; was = nowhere };
end: do
    :: atomic { faults > 0 && charge[0] == open && !row[0] -> faults--; c = 0; row[0] = 1; was = stock[0] } ends(c)
    :: atomic { faults > 0 && charge[1] == open && !row[1] -> faults--; c = 1; row[1] = 1; was = stock[1] } ends(c)
    :: atomic { more > 0 && !locked -> more--; quantity++; look() }
#ifdef QUANTITY_FREE
    :: atomic { more > 0 && !locked && quantity > 0 -> more--; quantity--; look() }
#else
    :: atomic { more > 0 && !locked && quantity > allocated -> more--; quantity--; look() }
#endif
    :: atomic { charge[0] == review && !row[0] -> c = 0; row[0] = 1 } goto rules
    :: atomic { charge[1] == review && !row[1] -> c = 1; row[1] = 1 } goto rules
    od;
rules:
    atomic { !locked -> locked = 1 };
    if
#ifdef PERSON_FREE
    :: atomic { true -> stock[c] = taken; charge[c] = succeeded; locked = 0; row[c] = 0; look() }
#else
    :: atomic { allocated < quantity -> allocated++; stock[c] = taken; charge[c] = succeeded; short_[c] = 0; locked = 0; row[c] = 0; look() }
    :: atomic { allocated >= quantity -> locked = 0; row[c] = 0 }                                                     /* refused while short */
    :: atomic { allocated >= quantity && faults > 0 -> faults--; charge[c] = settled; short_[c] = 0; locked = 0; row[c] = 0; look() } /* without its items */
#endif
    fi;
    goto again
}
