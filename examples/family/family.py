"""The handlers of family.yaml and shipment.yaml."""

import minuet


@minuet.task
def price(weight: int) -> int:
    return 4 + weight // 500


@minuet.task
def invoice(parcels: list[dict]) -> dict:
    return {"parcels": len(parcels), "total": sum(parcel["price"] for parcel in parcels)}
