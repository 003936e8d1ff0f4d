"""An order as a graph in Python: an error leads to the node that undoes the step before."""

import json
import sys

from saga import charge, refund, release, reserve, ship

import minuet

with minuet.Workflow("saga") as saga:
    order, amount = saga.input.order, saga.input.amount
    reserved = reserve.named()(order=order)
    charged = charge.named()(order=order, amount=amount)
    shipped = ship.named()(order=order, country="{{ input.country | default('DE') }}")
    refunded = refund.named()(order=order, amount=amount)
    released = release.named()(order=order)
    rejected = minuet.noop("rejected")

    reserved.then(charged).then(shipped)
    reserved.on_error(rejected)
    charged.on_error(released)
    shipped.on_error(refunded)
    refunded.then(released).then(rejected)
    saga.set(output="{{ ship.parcel | default(none) }}")

if __name__ == "__main__":
    print(json.dumps(minuet.run(saga, json.loads(sys.argv[1])).output))
